#include "lamina/cuda/conv2d/mma/gathered/product.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"

namespace lamina::cuda::mma::gathered {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr std::int64_t most_blocks = std::numeric_limits<int>::max();
constexpr std::int64_t most_pixels = std::int64_t{1} << 30;  // of a launch: indices of pixels are ints
constexpr std::int64_t most_units = std::int64_t{1} << 31;   // of a launch: offsets in the input are 32 bits
constexpr std::size_t alignment = 256;

std::int64_t image_units(const Product& product) {
  return product.geometry.in_pixels() * product.layout.units_per_pixel;
}

}  // namespace

std::int64_t Product::images_per_launch(std::size_t workspace_limit) const {
  constexpr std::size_t no_limit = std::size_t{1} << 62;
  const std::size_t workspace = in_place ? no_limit : std::min(workspace_limit, no_limit);
  const auto limit = static_cast<std::int64_t>(workspace / alignment * alignment);
  const std::int64_t units = image_units(*this);
  // The smallest tile of all, 64 x 64, bounds the grid from above; a tile more covers what rounding up adds.
  const std::int64_t filter_tiles = ceil_div(geometry.group_out_channels(), 64) * std::int64_t{geometry.groups};
  const std::int64_t pixels = std::min(most_pixels, (most_blocks / filter_tiles - 1) * 64);
  const std::int64_t most =
      std::min({limit / layout.unit_bytes / units, most_units / units, pixels / geometry.out_pixels(), geometry.batch});
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

}  // namespace lamina::cuda::mma::gathered
