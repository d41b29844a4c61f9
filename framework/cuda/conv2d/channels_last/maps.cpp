#include "lamina/cuda/conv2d/channels_last/maps.h"

namespace lamina::cuda::channels_last {
namespace {

CUtensorMapDataType map_type(Operand operand) {
  switch (operand) {
    case Operand::bf16: return tensor_map_type(DType::bf16);
    case Operand::tf32: return tensor_map_type(DType::f32, true);
    case Operand::split_tf32: return tensor_map_type(DType::f32);
    case Operand::codes: return tensor_map_type(DType::u8);
    default: return tensor_map_type(DType::f16);
  }
}

}  // namespace

CUtensorMap input_map(const ConvGeometry& g, Operand operand, int pixels, const void* input, int pitch) {
  const bool scaled = is_scaled(operand);  // pixels of words, which have no gaps
  const std::int64_t channels = scaled ? std::int64_t{slab_count(g, operand)} * step_bytes / 2 : g.in_channels;
  return im2col_map(g, map_type(operand), channels, scaled || pitch == 0 ? channels : pitch, pixels, input);
}

CUtensorMap input_map(const ConvGeometry& g, Operand operand, const Halo& halo, const void* input, int pitch) {
  return image_map({.type = map_type(operand),
                    .batch = g.batch,
                    .height = g.in_height,
                    .width = g.in_width,
                    .channels = g.in_channels,
                    .pitch = pitch,
                    .box_height = halo.height,
                    .box_width = halo.width},
                   input);
}

CUtensorMap output_map(const ConvGeometry& g, DType type, int pixels, int pitch, void* output) {
  return matrix_map({.type = tensor_map_type(type),
                     .rows = g.batch * g.out_pixels(),
                     .columns = g.out_channels,
                     .pitch = pitch,
                     .box_rows = pixels,
                     .box_bytes = size_of(type) == 1 ? block_filters : step_bytes,
                     .read = false},
                    output);
}

CUtensorMap rectangle_map(const ConvGeometry& g, DType type, int pixels, int pitch, bool pooled, void* output) {
  const int apart = pooled ? 2 : 1;
  return image_map({.type = tensor_map_type(type),
                    .batch = g.batch,
                    .height = g.out_height / apart,
                    .width = g.out_width / apart,
                    .channels = g.out_channels,
                    .pitch = pitch,
                    .box_height = pooled ? 2 : pixels / rectangle_width,
                    .box_width = rectangle_width / apart,
                    .by_columns = pooled,
                    .read = false},
                   output);
}

}  // namespace lamina::cuda::channels_last
