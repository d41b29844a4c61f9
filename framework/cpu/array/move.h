#pragma once

#include <cstdint>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Elements in other places.
class Move {
 public:
  Move(const detail::MovePlan& plan, std::size_t element_size);

  void operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const;

 private:
  /// Elements of the innermost axis that are alike: outside, or `step` apart from `offset` on.
  struct Run {
    std::int64_t begin, end;
    std::int64_t offset, step;
    bool outside;
  };

  void join_short_axes();
  void find_runs();
  void row(const std::byte* from, std::int64_t begin, std::int64_t end, std::byte* to) const;
  void turn(const std::byte* from, std::byte* to, ThreadPool& pool) const;

  detail::MovePlan plan_;
  std::size_t size_;
  std::vector<Run> runs_;  // of the innermost axis
  int turned_ = -1;        // an outer axis along which input elements are neighbours, where the innermost's are not
};

}  // namespace lamina::cpu
