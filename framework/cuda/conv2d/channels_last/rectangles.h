#pragma once

#include <optional>

#include "lamina/cuda/conv2d/channels_last/choice.h"

/// How a layer goes into tiles that are rectangles (halo/kernel.cuh), and what that is expected to take.
namespace lamina::cuda::channels_last {

/// Of a block. `log2_buffers`: of its store buffers, which of tiles that are stored as a whole may be 0.
int rectangles_shared_bytes(const Tile& tile, const Halo& halo, int stages, bool adds, int log2_buffers);

/// Nothing if the layer has no overlapping windows, or its boxes do not fit.
std::optional<Choice> fit_rectangles(const ConvGeometry& geometry, const Tile& tile, const DeviceDescription& device,
                                     bool adds);

}  // namespace lamina::cuda::channels_last
