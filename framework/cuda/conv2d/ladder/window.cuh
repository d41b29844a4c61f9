#pragma once

#include <cstdint>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/kernel/conv_geometry.h"

/// What the convolution kernels share on the device.
namespace lamina::cuda {

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
