#include "lamina/cuda/conv2d/implicit_gemm/choice.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::implicit_gemm {
namespace {

using lamina::detail::ceil_div;

constexpr int most_splits = 32;
constexpr std::int64_t most_blocks = std::numeric_limits<int>::max();

KernelSet mma_kernels(Precision precision) {
  switch (precision) {
    case Precision::fp32: return kernels_fp32();
    case Precision::tf32: return kernels_tf32();
    case Precision::fp16: return kernels_fp16();
    case Precision::bf16: break;
  }
  return kernels_bf16();
}

/// What a launch is expected to take, in clock cycles. Blocks run in waves, `resident` to a multiprocessor. A step
/// takes what the tensor cores need for all blocks there, but each block also waits: for its barrier, for its operands.
/// The constants are measured (docs/implicit_gemm.md).
double expected_cycles(const Tile& tile, std::int64_t blocks, int resident, int multiprocessors, int terms_per_step,
                       int steps, int splits, double outputs) {
  constexpr double waiting = 370, beginning_and_end = 4600, reduction = 5100, partial_bytes_per_cycle = 1460;
  const double products = tile.block_m * tile.block_n * static_cast<double>(terms_per_step) / tile.rate;
  const auto wave = [&](std::int64_t together) {
    return ceil_div(steps, splits) * std::max(products * static_cast<double>(together), products + waiting) +
           beginning_and_end;
  };
  const std::int64_t at_once = std::int64_t{multiprocessors} * resident;
  double cycles = static_cast<double>(blocks / at_once) * wave(resident);
  if (blocks % at_once != 0) cycles += wave(ceil_div<std::int64_t>(blocks % at_once, multiprocessors));
  if (splits > 1) cycles += reduction + 2 * sizeof(float) * splits * outputs / partial_bytes_per_cycle;
  return cycles;
}

}  // namespace

KernelSet kernels_on(const DeviceDescription& device, Precision precision) {
  KernelSet set = mma_kernels(precision);
  if (device.wgmma) {
    for (const Tile& tile : wgmma_tiles(precision)) set.tiles.push_back(tile);
  }
  return set;
}

std::int64_t block_count(const ConvGeometry& geometry, std::int64_t images, const Tile& tile, int splits) {
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
  const KernelSet set = kernels_on(device, preparation.precision);
  const std::int64_t most_images = product.images_per_launch(preparation.workspace_limit);
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

    for (int asked = 1; asked <= std::min(layout.steps, most_splits); ++asked) {
      if (wanted.splits > 0 && asked != std::min({wanted.splits, layout.steps, most_splits})) continue;
      // As many as get at least one step each.
      const int splits = ceil_div(layout.steps, ceil_div(layout.steps, asked));
      if (like != nullptr && !like->adds_up_like({.tile = tile, .splits = splits})) continue;
      std::int64_t images = most_images;
      while (like != nullptr && images > 1 && !fits(images, splits)) images = ceil_div<std::int64_t>(images, 2);
      const std::int64_t blocks = block_count(geometry, images, tile, splits);
      if (splits > 1 && (blocks > most_blocks || !fits(images, splits))) continue;
      const double outputs = static_cast<double>(images * geometry.out_channels * geometry.out_pixels());
      const double cycles = static_cast<double>(ceil_div(geometry.batch, images)) *
                            expected_cycles(tile, blocks, resident, device.multiprocessors,
                                            step_bytes / layout.element_bytes, layout.steps, splits, outputs);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      best_resident = resident;
      best.tile = tile;
      best.splits = splits;
      best.images = images;
      best.cycles = cycles;
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

}  // namespace lamina::cuda::implicit_gemm
