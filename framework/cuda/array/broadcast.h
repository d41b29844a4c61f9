#pragma once

#include <span>
#include <vector>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// A chain of functions over operands of any dtype and layout that broadcast.
class Broadcast {
 public:
  static constexpr int max_steps = 16, max_inputs = 8;

  /// Of a problem that detail::is_computable.
  Broadcast(const PointwiseProblem& problem, const Preparation& preparation);

  /// In the memory of CUDA device `device`. The output may be an input of its shape, layout and dtype.
  void run(int device, std::span<const Tensor> inputs, Tensor& output, Stream stream) const;

 private:
  template <class T>
  void start(std::span<const Tensor> inputs, Tensor& output, Stream stream) const;

  PointwiseProblem problem_;
  std::vector<View> views_;
  View result_;
  std::vector<detail::WalkAxis> axes_;
};

}  // namespace lamina::cuda
