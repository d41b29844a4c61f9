#pragma once

#include <cuda.h>

#include "lamina/cuda/conv2d/channels_last/arguments.h"
#include "lamina/cuda/tensor_core/tensor_map.h"

/// The tensor maps of a convolution, see tensor_core/tensor_map.h.
namespace lamina::cuda::channels_last {

/// Whether TMA can express the windows of this convolution.
inline bool expressible(const ConvGeometry& geometry) { return im2col_expressible(geometry); }

/// Windows of `pixels` consecutive output pixels, 128 bytes of channels of one tap at a time. For Operand::tf32
/// TMA rounds f32 to TF32 as it copies. `pitch`: elements from one pixel of the input to the next, 0: channels. Throws
/// Error if the driver refuses.
CUtensorMap input_map(const ConvGeometry& geometry, Operand operand, int pixels,
                      const void* input,  // [N, H, W, C], or [N, H, W, slabs, 64] of scaled rows
                      int pitch = 0);

/// The same as boxes of halo/: of a slab of a tile's pixels with their halo.
CUtensorMap input_map(const ConvGeometry& geometry, Operand operand, const Halo& halo, const void* input,
                      int pitch = 0);

/// Boxes of 128 bytes of channels, of bytes 64, by `pixels` pixels, which lie `pitch` elements apart. Throws Error if
/// the driver refuses.
CUtensorMap output_map(const ConvGeometry& geometry, DType type, int pixels, int pitch,
                       void* output);  // [N, OH, OW, OC]

/// The same in rows of a rectangle's width; or, `pooled`, of [N, OH / 2, OW / 2, OC], two rows of half of it, column by
/// column.
CUtensorMap rectangle_map(const ConvGeometry& geometry, DType type, int pixels, int pitch, bool pooled, void* output);

}  // namespace lamina::cuda::channels_last
