#pragma once

#include <cstdint>

#include "lamina/kernel/conv_geometry.h"

/// What the convolution kernels share on the device.
namespace lamina::cuda {

/// Terms that may be added one after another into one float. A longer chain is cut, and its pieces added up apart:
/// where all products are alike, every addition rounds the same way, the error grows with the length of the chain,
/// and 363 terms already miss the precision contract (5.4e-6 of the sum; 128 terms stay below 2e-6).
inline constexpr int longest_chain = 128;

/// y = x, or max(x, 0) with NaN kept: fmaxf would drop it.
__device__ inline float activate(float x, bool relu) { return relu && x < 0.0f ? 0.0f : x; }

/// One output's place in [N, OC, OH, OW].
struct OutputPosition {
  std::int64_t n;
  int channel;
  int row;
  int column;
};

/// Splits a linear index into [N, OC, OH, OW]. Divisions in 32 bits are several times cheaper: Index says whether they
/// suffice.
template <class Index>
__device__ inline OutputPosition output_position(const ConvGeometry& g, Index i) {
  const Index width = static_cast<Index>(g.out_width);
  const Index height = static_cast<Index>(g.out_height);
  const Index channels = static_cast<Index>(g.out_channels);
  const Index column = i % width;
  i /= width;
  const Index row = i % height;
  i /= height;
  return {static_cast<std::int64_t>(i / channels), static_cast<int>(i % channels), static_cast<int>(row),
          static_cast<int>(column)};
}

}  // namespace lamina::cuda
