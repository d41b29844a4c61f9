#include "lamina/cuda/conv2d/channels_last/maps.h"

#include <cudaTypedefs.h>

#include <array>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::fail;

template <class Function>
Function driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || address == nullptr) fail("CUDA: this driver has no ", name);
  return reinterpret_cast<Function>(address);
}

CUtensorMapDataType data_type(DType type) {
  switch (type) {
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

CUtensorMapDataType data_type(Operand operand) {
  switch (operand) {
    case Operand::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Operand::tf32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case Operand::split_tf32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  }
}

cuuint64_t element_bytes(Operand operand) { return operand == Operand::tf32 || operand == Operand::split_tf32 ? 4 : 2; }

/// Where the last window's corner lies, seen from the image's far corner.
constexpr int far_corner(int padding, int kernel, int dilation) { return padding - (kernel - 1) * dilation; }

bool axis_expressible(int stride, int padding, int kernel, int dilation) {
  const int far = far_corner(padding, kernel, dilation);
  return stride <= 8 && padding <= 128 && far >= -128 && far <= 127 && (kernel - 1) * dilation <= 255;
}

}  // namespace

bool expressible(const ConvGeometry& g) {
  return axis_expressible(g.stride_height, g.padding_height, g.kernel_height, g.dilation_height) &&
         axis_expressible(g.stride_width, g.padding_width, g.kernel_width, g.dilation_width);
}

CUtensorMap input_map(const ConvGeometry& g, Operand operand, int pixels, const void* input) {
  static const auto encode = driver_function<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  const CUtensorMapDataType type = data_type(operand);
  const cuuint64_t element = element_bytes(operand);
  const cuuint64_t words_of_scaled = static_cast<cuuint64_t>(slab_count(g, operand)) * step_bytes / element;
  const cuuint64_t channels = is_scaled(operand) ? words_of_scaled : static_cast<cuuint64_t>(g.in_channels);
  const auto width = static_cast<cuuint64_t>(g.in_width), height = static_cast<cuuint64_t>(g.in_height);
  const std::array<cuuint64_t, 4> sizes{channels, width, height, static_cast<cuuint64_t>(g.batch)};
  const std::array<cuuint64_t, 3> strides{channels * element, width * channels * element,
                                          height * width * channels * element};
  const std::array<int, 2> near{-g.padding_width, -g.padding_height};
  const std::array<int, 2> far{far_corner(g.padding_width, g.kernel_width, g.dilation_width),
                               far_corner(g.padding_height, g.kernel_height, g.dilation_height)};
  const std::array<cuuint32_t, 4> steps{1, static_cast<cuuint32_t>(g.stride_width),
                                        static_cast<cuuint32_t>(g.stride_height), 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, type, 4, const_cast<void*>(input), sizes.data(), strides.data(), near.data(), far.data(),
             static_cast<cuuint32_t>(step_bytes / element), static_cast<cuuint32_t>(pixels), steps.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail("CUDA: cuTensorMapEncodeIm2col refused an input with error ", static_cast<int>(status));
  return map;
}

CUtensorMap output_map(const ConvGeometry& g, DType type, int pixels, void* output) {
  static const auto encode = driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  const auto element = static_cast<cuuint64_t>(size_of(type)), channels = static_cast<cuuint64_t>(g.out_channels);
  const std::array<cuuint64_t, 2> sizes{channels, static_cast<cuuint64_t>(g.batch * g.out_pixels())};
  const std::array<cuuint64_t, 1> strides{channels * element};
  const std::array<cuuint32_t, 2> box{static_cast<cuuint32_t>(step_bytes / element), static_cast<cuuint32_t>(pixels)};
  const std::array<cuuint32_t, 2> steps{1, 1};
  CUtensorMap map{};
  const CUresult status = encode(&map, data_type(type), 2, output, sizes.data(), strides.data(), box.data(),
                                 steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail("CUDA: cuTensorMapEncodeTiled refused an output with error ", static_cast<int>(status));
  return map;
}

CUtensorMap rows_map(Operand operand, std::int64_t rows, std::int64_t columns, int box_rows, bool swizzled,
                     const void* matrix) {
  static const auto encode = driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  const cuuint64_t element = element_bytes(operand);
  const std::array<cuuint64_t, 2> sizes{static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const std::array<cuuint64_t, 1> strides{static_cast<cuuint64_t>(columns) * element};
  const std::array<cuuint32_t, 2> box{static_cast<cuuint32_t>(step_bytes / element), static_cast<cuuint32_t>(box_rows)};
  const std::array<cuuint32_t, 2> steps{1, 1};
  CUtensorMap map{};
  const CUresult status = encode(&map, data_type(operand), 2, const_cast<void*>(matrix), sizes.data(), strides.data(),
                                 box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail("CUDA: cuTensorMapEncodeTiled refused an input with error ", static_cast<int>(status));
  return map;
}

}  // namespace lamina::cuda::channels_last
