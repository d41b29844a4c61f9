#include "lamina/cuda/conv2d/mma/gathered/layout.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cuda/tensor_core/packing.h"

namespace lamina::cuda::mma::gathered {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr std::int64_t max_blocks = std::numeric_limits<int>::max();
constexpr std::int64_t max_pixels = std::int64_t{1} << 30;  // of a launch: indices of pixels are ints
constexpr std::int64_t max_units = std::int64_t{1} << 31;   // of a launch: offsets in the input are 32 bits
constexpr std::size_t alignment = 256;

std::int64_t image_units(const Product& product) {
  return product.geometry.in_pixels() * product.layout.units_per_pixel;
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

std::int64_t Product::images_per_launch(std::size_t workspace_limit) const {
  constexpr std::size_t no_limit = std::size_t{1} << 62;
  const std::size_t workspace = in_place ? no_limit : std::min(workspace_limit, no_limit);
  const auto limit = static_cast<std::int64_t>(workspace / alignment * alignment);
  const std::int64_t units = image_units(*this);
  // The smallest tile of all, 64 x 64, bounds the grid from above; a tile more covers what rounding up adds.
  const std::int64_t filter_tiles = ceil_div(geometry.group_out_channels(), 64) * std::int64_t{geometry.groups};
  const std::int64_t pixels = std::min(max_pixels, (max_blocks / filter_tiles - 1) * 64);
  const std::int64_t most =
      std::min({limit / layout.unit_bytes / units, max_units / units, pixels / geometry.out_pixels(), geometry.batch});
  return most < 1 ? 0 : ceil_div(geometry.batch, ceil_div(geometry.batch, most));
}

std::size_t Product::staged_bytes(std::int64_t images) const {
  return in_place ? 0 : round_up(static_cast<std::size_t>(images * image_units(*this) * layout.unit_bytes), alignment);
}

Product product_of(const ConvGeometry& g, const Preparation& p) {
  Product product{.geometry = g, .layout = make_layout(g, p.precision)};
  product.in_place = p.input().format.dtype == storage_type(p.precision) &&
                     (p.input().format.layout == lamina::Layout::nhwc || g.in_pixels() == 1) &&
                     static_cast<unsigned>(g.group_in_channels()) % product.layout.unit_elements == 0;
  if (!product.in_place) {
    product.geometry = folded(g, p.precision, product.fold);
    product.layout = make_layout(product.geometry, p.precision);
  }
  return product;
}

std::vector<Position> make_taps(const ConvGeometry& geometry, const Layout& layout) {
  const auto units_per_step = static_cast<std::size_t>(step_bytes / layout.unit_bytes);
  const int taps = geometry.kernel_height * geometry.kernel_width;
  std::vector<Position> result(static_cast<std::size_t>(layout.steps) * units_per_step, no_tap);
  for (int tap = 0; tap < taps; ++tap) {
    const int kh = tap / geometry.kernel_width, kw = tap % geometry.kernel_width;
    const unsigned pixels =
        static_cast<unsigned>(kh * geometry.dilation_height) * static_cast<unsigned>(geometry.in_width) +
        static_cast<unsigned>(kw * geometry.dilation_width);
    for (unsigned unit = 0; unit < layout.units_per_group; ++unit) {
      const unsigned term =
          layout.term_of(static_cast<unsigned>(taps), static_cast<unsigned>(tap), unit * layout.unit_elements);
      result[term / layout.unit_elements] = {pixels * layout.units_per_pixel + unit, tap_bounds(kh, kw)};
    }
  }
  return result;
}

std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, const Fold& fold, const Layout& layout,
                                        Precision precision, int block_m, const float* weight,
                                        std::vector<FilterRange>& filters) {
  const int group_filters = geometry.group_out_channels(), m_tiles = ceil_div(group_filters, block_m);
  const int width = geometry.kernel_width, folded_width = fold.folded ? ceil_div(width, Fold::pixels) : width;
  const int terms_per_step = step_bytes / layout.element_bytes;
  const auto taps = static_cast<unsigned>(geometry.kernel_height * folded_width);
  const auto step_of_tile = static_cast<std::size_t>(block_m * step_bytes);
  const std::size_t tile_bytes = static_cast<std::size_t>(layout.steps) * step_of_tile;
  std::vector<unsigned char> packed(static_cast<std::size_t>(geometry.groups * m_tiles) * tile_bytes);
  const auto put = [&](int filter, const auto& weight_of) {
    const int group = filter / group_filters, m = filter % group_filters;
    unsigned char* rows = packed.data() + static_cast<std::size_t>(group * m_tiles + m / block_m) * tile_bytes;
    std::int64_t k = 0;
    for (int channel = 0; channel < geometry.group_in_channels(); ++channel) {
      for (int kh = 0; kh < geometry.kernel_height; ++kh) {
        for (int kw = 0; kw < width; ++kw, ++k) {
          const int within = fold.folded ? kw % Fold::pixels * Fold::channels + channel : channel;
          const int tap = kh * folded_width + (fold.folded ? kw / Fold::pixels : kw);
          const auto term =
              static_cast<int>(layout.term_of(taps, static_cast<unsigned>(tap), static_cast<unsigned>(within)));
          put_operand(rows + static_cast<std::size_t>(term / terms_per_step) * step_of_tile +
                          swizzled(row_of_filter(m % block_m), term % terms_per_step * layout.element_bytes),
                      precision, weight_of(k));
        }
      }
    }
  };
  filters = pack_filters(precision, weight, geometry.out_channels, geometry.reduction(), put);
  return packed;
}

}  // namespace lamina::cuda::mma::gathered
