#include "lamina/cuda/conv2d/mma/gathered/choice.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::mma::gathered {
namespace {

using lamina::detail::ceil_div;

constexpr int max_k_splits = 32;
constexpr std::int64_t max_tiles = std::numeric_limits<int>::max();

/// Clock cycles that the tensor cores need.
double products_of_a_step(const Tile& tile, int terms) {
  return static_cast<double>(tile.block_m * tile.block_n) * static_cast<double>(terms) / tile.rate;
}

/// What a launch is expected to take, in clock cycles. Tiles are worked on in waves, `resident` to a multiprocessor. A
/// step takes what the tensor cores need for all tiles there, but each also waits: for its barrier, for its operands.
/// No launch is faster than memory moves its `bytes`. The constants are measured (docs/inside/implicit_gemm.md).
double expected_cycles(const Tile& tile, std::int64_t tiles, int resident, int multiprocessors, int terms_per_step,
                       int steps, int splits, double outputs, double bytes) {
  constexpr double waiting = 270, launch = 3300, an_output = 0.15, reduction = 4300, bytes_per_cycle = 3060,
                   partial_bytes_per_cycle = 4250;
  const double area = tile.block_m * tile.block_n;
  const double products = products_of_a_step(tile, terms_per_step);
  const auto wave = [&](std::int64_t together) {
    const auto count = static_cast<double>(together);
    return ceil_div(steps, splits) * std::max(products * count, products + waiting) + an_output * area * count;
  };
  const std::int64_t at_once = std::int64_t{multiprocessors} * resident;
  double cycles = static_cast<double>(tiles / at_once) * wave(resident);
  if (tiles % at_once != 0) cycles += wave(ceil_div<std::int64_t>(tiles % at_once, multiprocessors));
  cycles = launch + std::max(cycles, bytes / bytes_per_cycle);
  if (splits > 1) cycles += reduction + 2 * sizeof(float) * splits * outputs / partial_bytes_per_cycle;
  return cycles;
}

/// Blocks of a launch. Going from tile to tile saves all but the first of a multiprocessor's beginnings. But who gets
/// the tiles of the last round is settled beforehand, and two may meet on one multiprocessor while another has none;
/// where that may cost more, the hardware deals out one tile a block.
std::int64_t blocks_of(const Tile& tile, std::int64_t tiles, int multiprocessors, int terms_per_step, int steps) {
  constexpr double beginning = 1500;
  const std::int64_t at_once = std::int64_t{multiprocessors} * tile.resident, rest = tiles % at_once;
  if (tiles <= at_once) return tiles;
  const auto needless = rest == 0 ? 0 : tile.resident - ceil_div<std::int64_t>(rest, multiprocessors);
  const double lost = static_cast<double>(needless * steps) * products_of_a_step(tile, terms_per_step);
  return lost > beginning * static_cast<double>(tiles / at_once) ? tiles : at_once;
}

}  // namespace

KernelSet kernels_of(Precision precision) {
  constexpr KernelSet (*in_order[])() = {kernels_fp32, kernels_tf32, kernels_fp16, kernels_bf16};  // of Precision
  return in_order[static_cast<std::size_t>(precision)]();
}

std::int64_t tile_count(const ConvGeometry& geometry, std::int64_t images, const Tile& tile, int splits) {
  return ceil_div<std::int64_t>(geometry.group_out_channels(), tile.block_m) *
         ceil_div<std::int64_t>(images * geometry.out_pixels(), tile.block_n) * geometry.groups * splits;
}

std::size_t partial_bytes(const ConvGeometry& geometry, std::int64_t images, int splits) {
  if (splits == 1) return 0;
  const std::int64_t filters = std::int64_t{geometry.groups} * ceil_div(geometry.group_out_channels(), 4) * 4;
  return static_cast<std::size_t>(images * filters * geometry.out_pixels()) * static_cast<std::size_t>(splits) *
         sizeof(float);
}

namespace {

/// The fastest by estimate; `like`: among those that add up in its order, with fewer images in a launch if its partial
/// sums have no room otherwise.
std::optional<Choice> search(const Product& product, const Preparation& preparation, const Choice* like) {
  const ConvGeometry& geometry = product.geometry;
  const Layout& layout = product.layout;
  const DeviceDescription& device = preparation.device;
  const Tuning& wanted = preparation.tuning;
  const KernelSet set = kernels_of(preparation.precision);
  const std::int64_t max_images = product.images_per_launch(preparation.workspace_limit);
  const auto fits = [&](std::int64_t images, int splits) {
    return product.staged_bytes(images) + partial_bytes(geometry, images, splits) <= preparation.workspace_limit;
  };

  Choice best;
  best.reduce = set.reduce;
  int best_resident = 0;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < set.tiles.size(); ++i) {
    const Tile& tile = set.tiles[i];
    const int shared = static_cast<int>(tile.shared_bytes);
    if (wanted.tile >= 0 && static_cast<std::size_t>(wanted.tile) != i) continue;
    if (tile.unit_bytes != layout.unit_bytes || shared > device.shared_bytes) continue;
    const int resident =
        std::min(tile.resident, device.multiprocessor_shared_bytes / (shared + device.reserved_shared_bytes));
    if (resident < 1) continue;

    for (int asked = 1; asked <= std::min(layout.steps, max_k_splits); ++asked) {
      if (wanted.splits > 0 && asked != std::min({wanted.splits, layout.steps, max_k_splits})) continue;
      // As many as get at least one step each.
      const int splits = ceil_div(layout.steps, ceil_div(layout.steps, asked));
      if (like != nullptr && !like->adds_up_like({.tile = tile, .splits = splits})) continue;
      std::int64_t images = max_images;
      while (like != nullptr && images > 1 && !fits(images, splits)) images = ceil_div<std::int64_t>(images, 2);
      const std::int64_t tiles = tile_count(geometry, images, tile, splits);
      if (splits > 1 && (tiles > max_tiles || !fits(images, splits))) continue;
      const double outputs = static_cast<double>(images * geometry.out_channels * geometry.out_pixels());
      const double bytes = layout.element_bytes *
                           (outputs + static_cast<double>(images * geometry.in_channels * geometry.in_pixels() +
                                                          std::int64_t{geometry.out_channels} * geometry.reduction()));
      const double cycles = static_cast<double>(ceil_div(geometry.batch, images)) *
                            expected_cycles(tile, tiles, resident, device.multiprocessors,
                                            step_bytes / layout.element_bytes, layout.steps, splits, outputs, bytes);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      best_resident = resident;
      best.tile = tile;
      best.splits = splits;
      best.images = images;
      best.cycles = cycles;
      best.blocks = blocks_of(tile, tiles, device.multiprocessors, step_bytes / layout.element_bytes,
                              ceil_div(layout.steps, splits));
    }
  }
  if (best_resident == 0) return {};
  return best;
}

}  // namespace

Choice choose(const Product& product, const Preparation& preparation) {
  const auto of = [&product](const ConvGeometry& geometry) {
    Product same = product;
    same.geometry = geometry;
    return same;
  };
  const auto choice = lamina::detail::choose_order(
      product.geometry, preparation,
      [&](const ConvGeometry& g, const Choice* like) { return search(of(g), preparation, like); });
  if (!choice) lamina::detail::fail("implicit_gemm: no tile fits this device and workspace");
  return *choice;
}

}  // namespace lamina::cuda::mma::gathered
