#pragma once

#include <optional>

#include "lamina/cuda/conv2d/channels_last/choice.h"

/// How a layer goes into tiles that are rectangles (halo/kernel.cuh), and what that is expected to take.
namespace lamina::cuda::channels_last {

/// Of a block. `log2_buffers`: of its store buffers, which of tiles that are stored as a whole may be 0.
int rectangles_shared_bytes(const Tile& tile, const Halo& halo, int stages, bool adds, int log2_buffers);

/// The layer as rectangles cover it: of single pixels, they are an image of rows of eight, whichever images they are
/// of.
ConvGeometry in_rectangles(const ConvGeometry& geometry);

/// Nothing if the layer has neither overlapping windows nor single pixels, or its boxes do not fit.
std::optional<Choice> fit_rectangles(const ConvGeometry& geometry, const Tile& tile, const DeviceDescription& device,
                                     const Demands& demands);

}  // namespace lamina::cuda::channels_last
