#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/reduce_plan.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Reductions. Those of floats are computed in double, so that no sum of them loses to its length.
class Reduce {
 public:
  /// Of a problem that detail::is_reducible.
  Reduce(const ReduceProblem& problem, const Preparation& preparation);

  void operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const;

 private:
  template <class T>
  class Worker;

  template <class T>
  void run(const Tensor& input, Tensor& output, ThreadPool& pool) const;

  ReduceProblem problem_;
  detail::ReducePlan plan_;
  DType compute_;
  bool columns_ = false;  // an element of each of many outputs after the other
};

}  // namespace lamina::cpu
