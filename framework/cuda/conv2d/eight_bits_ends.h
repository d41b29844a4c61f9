#pragma once

#include "lamina/cuda/eight_bits/codes.h"
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

/// What codes of sums are added to, where they are an addend (EightBitWeights::addend).
struct Addition {
  float scale = 0;  // of the sums' codes
  Meaning other = {};
  Results results = {};  // clamped as the epilogue says
};

/// For `channels`, of which those that there are not get zeros. `constants` keeps the memory.
inline Ends ends_of(const detail::ChannelEnd& end, int channels, Constants& constants) {
  const auto add = [&](auto values) {
    values.resize(static_cast<std::size_t>(channels));
    return constants.add(values);
  };
  return {end.end, add(end.bias), add(end.factor), add(end.float_bias)};
}

}  // namespace lamina::cuda::eight_bits
