#include "lamina/cuda/tensor_core/tensor_map.h"

#include <cudaTypedefs.h>

#include <array>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/driver_function.h"
#include "lamina/cuda/tensor_core/operand_rows.h"

namespace lamina::cuda {
namespace {

using lamina::detail::fail;

cuuint64_t element_bytes(CUtensorMapDataType type) {
  if (type == CU_TENSOR_MAP_DATA_TYPE_UINT8) return 1;
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 || type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 ? 4 : 2;
}

/// Where the last window's corner lies, seen from the image's far corner.
constexpr int far_corner(int zeros, int kernel, int dilation) { return zeros - (kernel - 1) * dilation; }

bool axis_expressible(int stride, int padding, int zeros, int kernel, int dilation) {
  const int far = far_corner(zeros, kernel, dilation);
  return stride <= 8 && padding <= 128 && far >= -128 && far <= 127 && (kernel - 1) * dilation <= 255;
}

/// By cuTensorMapEncodeTiled: sizes in elements, innermost first; strides in bytes, of all dimensions but the
/// innermost.
template <std::size_t rank>
CUtensorMap tiled_map(CUtensorMapDataType type, const void* data, const std::array<cuuint64_t, rank>& sizes,
                      const std::array<cuuint64_t, rank - 1>& strides, const std::array<cuuint32_t, rank>& box,
                      CUtensorMapSwizzle swizzle, bool read) {
  static const auto encode = driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  std::array<cuuint32_t, rank> steps;
  steps.fill(1);
  CUtensorMap map{};
  const CUresult status = encode(&map, type, static_cast<cuuint32_t>(rank), const_cast<void*>(data), sizes.data(),
                                 strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                 read ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail("CUDA: cuTensorMapEncodeTiled refused ", rank == 2 ? "a matrix" : "an image", " with error ",
         static_cast<int>(status));
  return map;
}

}  // namespace

CUtensorMapDataType tensor_map_type(DType type, bool as_tf32) {
  switch (type) {
    case DType::u8: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return as_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

CUtensorMap matrix_map(const MatrixMap& m, const void* data) {
  const cuuint64_t element = element_bytes(m.type);
  const auto pitch = static_cast<cuuint64_t>(m.pitch > 0 ? m.pitch : m.columns);
  return tiled_map<2>(
      m.type, data, {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows)}, {pitch * element},
      {static_cast<cuuint32_t>(m.box_bytes) / static_cast<cuuint32_t>(element), static_cast<cuuint32_t>(m.box_rows)},
      !m.swizzled                ? CU_TENSOR_MAP_SWIZZLE_NONE
      : m.box_bytes < step_bytes ? CU_TENSOR_MAP_SWIZZLE_64B
                                 : CU_TENSOR_MAP_SWIZZLE_128B,
      m.read);
}

CUtensorMap image_map(const ImageMap& m, const void* data) {
  const cuuint64_t element = element_bytes(m.type);
  const auto channels = static_cast<cuuint64_t>(m.channels), width = static_cast<cuuint64_t>(m.width),
             height = static_cast<cuuint64_t>(m.height), batch = static_cast<cuuint64_t>(m.batch),
             pixel = (m.pitch > 0 ? static_cast<cuuint64_t>(m.pitch) : channels) * element;
  std::array<cuuint64_t, 4> sizes{channels, width, height, batch};
  std::array<cuuint64_t, 3> strides{pixel, width * pixel, height * width * pixel};
  std::array<cuuint32_t, 4> box{static_cast<cuuint32_t>(step_bytes / element), static_cast<cuuint32_t>(m.box_width),
                                static_cast<cuuint32_t>(m.box_height), 1};
  if (m.by_columns) std::swap(sizes[1], sizes[2]), std::swap(strides[0], strides[1]), std::swap(box[1], box[2]);
  return tiled_map<4>(m.type, data, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B, m.read);
}

bool im2col_expressible(const ConvGeometry& g) {
  return axis_expressible(g.stride_height, g.padding_height, g.zeros_below(), g.kernel_height, g.dilation_height) &&
         axis_expressible(g.stride_width, g.padding_width, g.zeros_right(), g.kernel_width, g.dilation_width);
}

CUtensorMap im2col_map(const ConvGeometry& g, CUtensorMapDataType type, std::int64_t channels, std::int64_t pitch,
                       int pixels, const void* input) {
  static const auto encode = driver_function<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  const cuuint64_t pixel = static_cast<cuuint64_t>(pitch) * element_bytes(type);
  const auto width = static_cast<cuuint64_t>(g.in_width), height = static_cast<cuuint64_t>(g.in_height);
  const std::array<cuuint64_t, 4> sizes{static_cast<cuuint64_t>(channels), width, height,
                                        static_cast<cuuint64_t>(g.batch)};
  const std::array<cuuint64_t, 3> strides{pixel, width * pixel, height * width * pixel};
  const std::array<int, 2> near{-g.padding_width, -g.padding_height};
  const std::array<int, 2> far{far_corner(g.zeros_right(), g.kernel_width, g.dilation_width),
                               far_corner(g.zeros_below(), g.kernel_height, g.dilation_height)};
  const std::array<cuuint32_t, 4> steps{1, static_cast<cuuint32_t>(g.stride_width),
                                        static_cast<cuuint32_t>(g.stride_height), 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, type, 4, const_cast<void*>(input), sizes.data(), strides.data(), near.data(), far.data(),
             static_cast<cuuint32_t>(step_bytes / element_bytes(type)), static_cast<cuuint32_t>(pixels), steps.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail("CUDA: cuTensorMapEncodeIm2col refused an input with error ", static_cast<int>(status));
  return map;
}

}  // namespace lamina::cuda
