#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/reduce_plan.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Reductions, in the memory of a CUDA device; those of f32, f16 and bf16 in compensated sums of f32.
class Reduce {
 public:
  /// Of a problem that detail::is_reducible.
  Reduce(const ReduceProblem& problem, const Preparation& preparation);

  void run(int device, const Tensor& input, Tensor& output, Stream stream) const;

 private:
  template <class T>
  void start(const Tensor& input, Tensor& output, Stream stream) const;
  template <class T, class State>
  void launch(const Tensor& input, Tensor& output, Stream stream) const;

  ReduceProblem problem_;
  detail::ReducePlan plan_;
  DType compute_;
};

/// Sums, products, the largest and the least of rows. False, and nothing is done, where they are not rows of whole
/// packs.
bool reduce_packs(const ReduceProblem& problem, const detail::ReducePlan& plan, const Tensor& input, Tensor& output,
                  Stream stream);

}  // namespace lamina::cuda
