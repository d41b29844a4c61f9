#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/rules/eight_bits.h"

/// What becomes of the sums of a convolution in eight bits, on a GPU; eight_bits_ends.cuh has the arithmetic.
namespace lamina::cuda::eight_bits {

using detail::SumsEnd;

struct Ends {
  SumsEnd end = {};
  const std::int32_t* offset = nullptr;  // [channels], added to the sums
  const float* factor = nullptr;         // [channels]
  const float* bias = nullptr;           // [channels]
};

/// Of sums of x w of a problem that is_eight_bits, for `channels`, of which those that it has not get zeros.
/// `constants` keeps the memory.
inline Ends ends_of(const ConvProblem& problem, const Preparation& p, int channels, Constants& constants) {
  detail::ChannelEnd end = detail::channel_end(problem, p, p.input().quantization.zero_point);
  const auto add = [&](auto values) {
    values.resize(static_cast<std::size_t>(channels));
    return constants.add(values);
  };
  return {end.end, add(end.bias), add(end.factor), add(end.float_bias)};
}

}  // namespace lamina::cuda::eight_bits
