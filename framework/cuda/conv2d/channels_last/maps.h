#pragma once

#include <cuda.h>

#include "lamina/cuda/conv2d/channels_last/arguments.h"

/// Descriptions of tensors for the copy engine. The driver's functions are looked up at run time, so that the library
/// links no more than it did.
namespace lamina::cuda::channels_last {

/// Whether the copy engine's im2col mode can express the windows of this convolution.
bool expressible(const ConvGeometry& geometry);

/// Windows of `pixels` consecutive output pixels, 128 bytes of channels of one tap at a time. For Operand::tf32 the
/// copy engine rounds f32 to TF32 as it copies. Throws Error if the driver refuses.
CUtensorMap input_map(const ConvGeometry& geometry, Operand operand, int pixels,
                      const void* input);  // [N, H, W, C], or [N, H, W, slabs, 64] of scaled rows

/// Boxes of 128 bytes of channels by `pixels` pixels. Throws Error if the driver refuses.
CUtensorMap output_map(const ConvGeometry& geometry, DType type, int pixels, void* output);  // [N, OH, OW, OC]

/// Boxes of 128 bytes of columns by `box_rows` rows, under the 128-byte swizzle or as they are; what lies past the last
/// row or column is zeros. Rounds as input_map does. Throws Error if the driver refuses.
CUtensorMap rows_map(Operand operand, std::int64_t rows, std::int64_t columns, int box_rows, bool swizzled,
                     const void* matrix);  // [rows, columns]

}  // namespace lamina::cuda::channels_last
