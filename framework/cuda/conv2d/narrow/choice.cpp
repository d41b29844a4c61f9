#include "lamina/cuda/conv2d/narrow/choice.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::narrow {
namespace {

using lamina::detail::ceil_div;

/// What a launch takes, `operands` maps of its outputs moved, in clock cycles: of the tiles of a warp one after the
/// other, or of what keeps a multiprocessor busy. Fitted to 1,100 tiles of 58 layers of mobile networks at N = 1 and 32
/// (experiment D11).
double expected_cycles(const Choice& c, int operands, const DeviceDescription& device) {
  constexpr double start = 1200, each_block = 4.6, fill_per_cycle = 450;
  constexpr double tile_latency = 1900, chunk_latency = 690, product_latency = 32, reduction = 240,
                   reduce_fragment = 51;
  constexpr double product = 4.2, bytes_per_cycle = 34, shared_per_cycle = 150, stored_per_cycle = 23;
  constexpr double chunk_multiplies = 320, multiplied_per_cycle = 26;  // of codes, by their instructions; not fitted
  const Arguments& a = c.args;
  const int m = c.tile.m, n = c.tile.n;
  const bool codes = c.element_bytes == 1, multiplies = codes && c.tile.scaled;
  const double products = m * n * 2, warp_tiles = warps / a.splits;  // of a block's tile
  const double stores = 2.0 * m * (n % 4 == 0 ? n / 4 : 1) * (a.splits == 1 ? 57 : 108);
  const double tile = tile_latency +
                      std::ceil(1.0 * a.chunks / a.splits) *
                          std::max(products * product_latency + (multiplies ? chunk_multiplies * m : 0),
                                   chunk_latency / (stages_of(m) - 1)) +
                      stores + (a.splits > 1 ? reduction + reduce_fragment * m * n : 0);
  const double rounds = ceil_div(a.tiles, c.blocks / a.slices);
  const double blocks = std::ceil(1.0 * c.blocks / device.multiprocessors) * rounds;  // of a multiprocessor
  const double pixels = warp_tiles * 16 * m, filters = 8.0 * n;
  const double read = pixels * c.element_bytes * (a.channels * (c.tile.scaled ? 1.4 : 1) + filters * operands);
  const double shared = warp_tiles * a.chunks * n * fragment_bytes;
  const double work =
      blocks *
      (std::max({warp_tiles * a.chunks * products * product, read / bytes_per_cycle, shared / shared_per_cycle}) +
       pixels * filters * 2 * operands / stored_per_cycle +  // of codes, instructions
       (multiplies ? pixels * a.channels / multiplied_per_cycle : 0));
  const double fill = slice_bytes(a.chunks, n, codes) / fill_per_cycle * (c.blocks > device.multiprocessors ? 2 : 1);
  return start + fill + each_block * c.blocks + std::max(rounds * tile, work);
}

std::vector<Tile> tiles_of(DType type) {
  if (size_of(type) == 1) return type == DType::u8 ? tiles_u8() : tiles_i8();
  return type == DType::f16 ? tiles_f16() : tiles_bf16();
}

std::optional<Choice> search(const ConvProblem& problem, const ConvGeometry& g, const Preparation& p,
                             const Choice* like) {
  std::optional<Choice> best;
  const DType type = p.input().format.dtype;
  int number = -1;
  for (const Tile& tile : tiles_of(type)) {
    if (tile.scaled != problem.scaled()) continue;
    if (++number, p.tuning.tile >= 0 && p.tuning.tile != number) continue;
    Choice c = {.tile = tile, .args = {}, .element_bytes = static_cast<int>(size_of(type))};
    Arguments& args = c.args;
    args.pixels = static_cast<int>(g.batch * g.out_pixels()), args.channels = g.in_channels;
    args.filters = g.out_channels;
    args.output_pitch = static_cast<int>(p.output().pixel_pitch());
    args.chunks = ceil_div(g.in_channels * c.element_bytes, chunk_bytes);
    args.slices = ceil_div(g.out_channels, 8 * tile.n);
    args.by_slices = Divider(args.slices), args.by_image = Divider(g.out_pixels());
    args.images = static_cast<int>(g.batch), args.image_pixels = static_cast<int>(g.out_pixels());
    int tiles = ceil_div(args.pixels, 16 * tile.m);  // of a warp
    if (tile.scaled && c.element_bytes == 1) {
      const int of_image = ceil_div(args.image_pixels, 16 * tile.m);
      args.by_image = Divider(of_image), tiles = args.images * of_image;
    }
    for (const int splits : {1, 2, 4, 8}) {
      if (splits > 1 && splits > args.chunks) break;
      if (p.tuning.splits > 0 && splits != p.tuning.splits) continue;
      if (like != nullptr && splits != like->args.splits) continue;
      args.splits = splits;
      args.tiles = ceil_div(tiles, warps / splits);
      c.shared_bytes =
          slice_bytes(args.chunks, tile.n, c.element_bytes == 1) + (splits > 1 ? warps * tile.m * tile.n * 512 : 0);
      if (c.shared_bytes > p.device.shared_bytes) continue;
      const int fit = p.device.multiprocessor_shared_bytes / (c.shared_bytes + p.device.reserved_shared_bytes);
      const int resident = std::clamp(fit, 1, tile.resident);
      const int walkers = std::max(1, std::min(args.tiles, p.device.multiprocessors * resident / args.slices));
      c.blocks = ceil_div(args.tiles, ceil_div(args.tiles, walkers)) * args.slices;
      c.cycles = expected_cycles(c, problem.epilogue.reads_operands() ? 2 : 1, p.device);
      if (!best || c.cycles < best->cycles) best = c;
    }
  }
  return best;
}

}  // namespace

std::optional<Choice> choose(const ConvProblem& problem, const Preparation& p) {
  return lamina::detail::choose_order(
      problem.geometry, p, [&](const ConvGeometry& g, const Choice* like) { return search(problem, g, p, like); });
}

}  // namespace lamina::cuda::narrow
