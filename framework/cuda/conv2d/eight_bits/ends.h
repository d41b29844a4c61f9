#pragma once

#include "lamina/cuda/runtime/constant.h"
#include "lamina/kernel/rules/eight_bits.h"

/// What becomes of the sums of a convolution in eight bits, on a GPU; ends.cuh has the arithmetic.
namespace lamina::cuda::eight_bits {

using detail::SumsEnd;

struct Ends {
  SumsEnd end = {};
  const std::int32_t* offset = nullptr;  // [channels], added to the sums
  const float* factor = nullptr;         // [channels]
  const float* bias = nullptr;           // [channels]
};

/// The memory of one.
class UploadedEnds {
 public:
  UploadedEnds() = default;
  /// Of a problem that is_eight_bits, for `channels`, of which those that it has not get zeros. Sums are of x w: x's
  /// zero point is in the offsets.
  UploadedEnds(const ConvProblem& problem, const Preparation& preparation, int channels);

  Ends ends() const { return {end_, offset_.as<std::int32_t>(), factor_.as<float>(), bias_.as<float>()}; }
  std::size_t bytes() const { return offset_.bytes() + factor_.bytes() + bias_.bytes(); }

 private:
  SumsEnd end_;
  Constant offset_, factor_, bias_;
};

}  // namespace lamina::cuda::eight_bits
