#pragma once

#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/neighbours.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Elements in other places, in the memory of CUDA device `device`.
class Move {
 public:
  static constexpr int max_axes = 12;

  static bool takes(const MoveProblem& problem) { return problem.axes.size() <= max_axes; }

  /// `alignment`: the addresses of input and output are multiples of it. After every `row` elements of the output,
  /// `gap` are left out: channels of a larger image.
  Move(int device, const detail::MovePlan& plan, std::size_t element_size, std::size_t alignment, std::int64_t row = 1,
       std::int64_t gap = 0);

  std::size_t parameter_bytes() const { return tables_.bytes(); }
  void run(const Tensor& input, Tensor& output, const Neighbours& neighbours, Stream stream) const;

 private:
  void widen(std::size_t alignment);

  int device_;
  detail::MovePlan plan_;
  std::int64_t row_, gap_;
  std::size_t size_;  // of what is moved at a time: neighbours that stay together are one
  int turned_ = -1;   // an outer axis along which input elements are neighbours, where the innermost's are not
  Constant tables_;   // of the axes that have one, one after the other
};

}  // namespace lamina::cuda
