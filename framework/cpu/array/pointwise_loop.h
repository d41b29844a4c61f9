#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/pointwise.h"
#include "lamina/cpu/codes.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// A chain of functions over operands of any dtype that broadcast: block by block they are converted to the type that
/// is computed in, every step is a loop over the block, and the result is converted as it is stored. What is contiguous
/// and of that type already is worked on where it lies.
class PointwiseLoop {
 public:
  /// Of a problem that detail::is_computable.
  PointwiseLoop(const PointwiseProblem& problem, const Preparation& preparation);

  /// The output may be an input of its shape and dtype.
  void operator()(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;

 private:
  enum class Kind { contiguous, one_for_all, strided };

  template <class T>
  class Worker;

  void find_two_codes(const Preparation& preparation);
  void run_two_codes(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;
  template <class T>
  void run(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;

  PointwiseProblem problem_;
  const ApplyKernel* kernel_;
  const CodesKernel* codes_;
  std::vector<Quantization> quantizations_;  // by input, and then the output's
  std::vector<detail::WalkAxis> axes_;
  std::vector<Kind> kinds_;                  // by input
  std::optional<TwoCodes> two_;              // all that is done
  std::size_t whole_ = 0;                    // of its operands, the one of the output's shape
  std::int64_t image_ = 0, image_step_ = 0;  // elements of the output with the same factors, and of these to the next
};

}  // namespace lamina::cpu
