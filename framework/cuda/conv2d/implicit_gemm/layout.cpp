#include "lamina/cuda/conv2d/implicit_gemm/layout.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/cuda/tensor_core/weights.h"
#include "lamina/kernel/precision.h"

namespace lamina::cuda::implicit_gemm {
namespace {

using lamina::detail::ceil_div;

/// Writes one operand of the product.
void store(unsigned char* destination, Precision precision, float value) {
  const auto copy = [destination](auto bits) { std::memcpy(destination, &bits, sizeof(bits)); };
  switch (precision) {
    case Precision::fp32: return copy(value);
    case Precision::tf32: return copy(round_to_tf32(std::bit_cast<std::uint32_t>(value)));
    case Precision::fp16: return copy(to_half(value).bits);
    case Precision::bf16: return copy(to_bfloat16(value).bits);
  }
}

}  // namespace

ConvGeometry folded(const ConvGeometry& geometry, Precision precision, Fold& fold) {
  fold = {};
  ConvGeometry g = geometry;
  if (size_of(storage_type(precision)) != 2 || g.groups != 1 || g.in_channels < 3 || g.in_channels > Fold::channels ||
      g.kernel_width == 1 || g.stride_width % Fold::pixels != 0 || g.dilation_width != 1) {
    return g;
  }
  fold = {.folded = true, .shift = g.padding_width % Fold::pixels};
  g.in_channels = Fold::pixels * Fold::channels;
  g.in_width = ceil_div(g.in_width + fold.shift, Fold::pixels);
  g.kernel_width = ceil_div(g.kernel_width, Fold::pixels);
  g.stride_width /= Fold::pixels;
  g.padding_width = (g.padding_width - fold.shift) / Fold::pixels;
  return g;
}

std::vector<float> fold_weights(const ConvGeometry& geometry, const float* weight) {
  const auto rows = static_cast<std::size_t>(geometry.kernel_height),
             columns = static_cast<std::size_t>(geometry.kernel_width);
  const std::size_t pairs = ceil_div(columns, std::size_t{Fold::pixels}), channels = Fold::pixels * Fold::channels;
  std::vector<float> result(static_cast<std::size_t>(geometry.out_channels) * channels * rows * pairs);
  for (std::size_t filter = 0; filter < static_cast<std::size_t>(geometry.out_channels); ++filter) {
    for (std::size_t channel = 0; channel < static_cast<std::size_t>(geometry.in_channels); ++channel) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t x = 0; x < columns; ++x) {
          const std::size_t to = filter * channels + x % Fold::pixels * Fold::channels + channel;
          result[(to * rows + row) * pairs + x / Fold::pixels] = *weight++;
        }
      }
    }
  }
  return result;
}

Layout make_layout(const ConvGeometry& geometry, Precision precision) {
  Layout layout;
  layout.element_bytes = precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
  // The widest copy that channels fill at least half of; at least 4 bytes, cp.async's smallest.
  const int channels = geometry.group_in_channels();
  layout.unit_bytes = 16;
  while (layout.unit_bytes > 4 && layout.unit_bytes / layout.element_bytes >= 2 * channels) layout.unit_bytes /= 2;
  layout.unit_elements = static_cast<unsigned>(layout.unit_bytes / layout.element_bytes);
  layout.units_per_group = ceil_div(static_cast<unsigned>(channels), layout.unit_elements);
  layout.units_per_pixel = layout.units_per_group * static_cast<unsigned>(geometry.groups);
  const std::int64_t units = std::int64_t{layout.units_per_group} * geometry.kernel_height * geometry.kernel_width;
  layout.steps = static_cast<int>(ceil_div(units * layout.unit_bytes, std::int64_t{step_bytes}));
  return layout;
}

std::vector<Position> make_taps(const ConvGeometry& geometry, const Layout& layout) {
  const auto units_per_step = static_cast<std::size_t>(step_bytes / layout.unit_bytes);
  std::vector<Position> taps(static_cast<std::size_t>(layout.steps) * units_per_step, no_tap);
  for_each_unit(geometry, layout, [&](unsigned k, int kh, int kw, unsigned channel) {
    const auto pixels =
        static_cast<unsigned>(kh * geometry.dilation_height) * static_cast<unsigned>(geometry.in_width) +
        static_cast<unsigned>(kw * geometry.dilation_width);
    taps[k / layout.unit_elements] = {pixels * layout.units_per_pixel + channel / layout.unit_elements,
                                      tap_bounds(kh, kw)};
  });
  return taps;
}

std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, const Layout& layout, Precision precision,
                                        int block_m, const float* weight, std::vector<FilterRange>& filters) {
  const int group_filters = geometry.group_out_channels();
  const int m_tiles = ceil_div(group_filters, block_m);
  const auto tile_bytes = static_cast<std::size_t>(block_m * step_bytes);
  const auto tile_count = static_cast<std::size_t>(geometry.groups) * static_cast<std::size_t>(m_tiles);
  const auto steps = static_cast<std::size_t>(layout.steps);
  std::vector<unsigned char> packed(tile_count * steps * tile_bytes);
  const std::int64_t window = std::int64_t{geometry.kernel_height} * geometry.kernel_width;
  const auto terms_per_step = static_cast<unsigned>(step_bytes / layout.element_bytes);

  if (precision == Precision::fp32) filters.resize(static_cast<std::size_t>(geometry.out_channels));
  const auto pack = [&](std::size_t filter) {
    const float* w = weight + static_cast<std::int64_t>(filter) * geometry.reduction();
    int shift = 0;
    if (precision == Precision::fp32) filters[filter] = find_range(w, geometry.reduction(), shift);
    const int group = static_cast<int>(filter) / group_filters, m = static_cast<int>(filter) % group_filters;
    const auto tile = static_cast<std::size_t>(group * m_tiles + m / block_m);
    unsigned char* rows = packed.data() + tile * steps * tile_bytes;
    for_each_unit(geometry, layout, [&](unsigned k, int kh, int kw, unsigned channel) {
      for (unsigned i = 0; i < layout.unit_elements; ++i) {
        if (channel + i >= static_cast<unsigned>(geometry.group_in_channels())) break;
        const float value = w[std::int64_t{channel + i} * window + kh * geometry.kernel_width + kw];
        const int column = static_cast<int>((k + i) % terms_per_step) * layout.element_bytes;
        store(rows + (k + i) / terms_per_step * tile_bytes + swizzled(row_of_filter(m % block_m), column), precision,
              shift == 0 ? value : std::ldexp(value, shift));
      }
    });
  };
  lamina::detail::in_parallel(static_cast<std::size_t>(geometry.out_channels), 1,
                              [&](std::size_t begin, std::size_t end) {
                                for (std::size_t filter = begin; filter < end; ++filter) pack(filter);
                              });
  return packed;
}

}  // namespace lamina::cuda::implicit_gemm
