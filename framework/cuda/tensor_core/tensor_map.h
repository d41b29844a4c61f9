#pragma once

#include <cuda.h>

#include <cstdint>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/tensor/dtype.h"

/// Tensor maps: descriptions of tensors for TMA, whose boxes are 128 bytes wide. All throw Error if the driver refuses.
/// The driver's functions are looked up at run time, so that the library links no more than it did.
namespace lamina::cuda {

/// u8, f16, bf16 or f32; `as_tf32`: TMA rounds f32 to TF32 as it copies.
CUtensorMapDataType tensor_map_type(DType type, bool as_tf32 = false);

/// What lies past the last row or column is read as zeros, and not written.
struct MatrixMap {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t pitch = 0;  // elements from one row to the next; 0: columns
  int box_rows = 0;
  int box_bytes = 128;   // of columns: 128 or 64
  bool swizzled = true;  // the box in shared memory: of 128 bytes, by operand_rows.h; of 64, by as many
  bool read = true;      // through L2, which then fetches 256 bytes at a time
};
CUtensorMap matrix_map(const MatrixMap& matrix, const void* data);  // [rows, columns]

/// Boxes of box_height rows of box_width pixels of one image. What lies outside of the image, on any side, is read as
/// zeros, and not written.
struct ImageMap {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t pitch = 0;  // elements from one pixel to the next; 0: channels
  int box_height = 0, box_width = 0;
  bool by_columns = false;  // the box's pixels in shared memory: column by column
  bool read = true;         // through L2, which then fetches 256 bytes at a time
};
CUtensorMap image_map(const ImageMap& image, const void* data);  // [batch, height, width, channels]

/// Whether TMA's im2col mode can express the windows of this convolution.
bool im2col_expressible(const ConvGeometry& geometry);

/// Windows of `pixels` consecutive output pixels, 128 bytes of channels of one tap at a time; `pitch`: elements from
/// one pixel of the input to the next.
CUtensorMap im2col_map(const ConvGeometry& geometry, CUtensorMapDataType type, std::int64_t channels,
                       std::int64_t pitch, int pixels, const void* input);  // [N, H, W, channels]

}  // namespace lamina::cuda
