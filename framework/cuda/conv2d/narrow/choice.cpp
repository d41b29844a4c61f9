#include "lamina/cuda/conv2d/narrow/choice.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::narrow {
namespace {

using lamina::detail::ceil_div;

/// What a launch takes, in clock cycles.
double expected_cycles(const Choice& c, const DeviceDescription& device) {
  constexpr double start = 2500, fill_per_cycle = 64, bytes_per_cycle = 20, shared_per_cycle = 100, latency = 700;
  const Arguments& a = c.args;
  const int m = c.tile.m, n = c.tile.n;
  const double own = std::ceil(1.0 * a.chunks / a.splits), product = m * n * 2;
  const double chunk_latency = std::max(product * 8, latency / (stages_of(m) - 1));
  const double tile = latency + own * chunk_latency + (a.splits > 1 ? 250 + 20 * m * n : 20 * m * n);
  const int walkers = c.blocks / a.slices;
  const double rounds = ceil_div(a.tiles, walkers);
  const double blocks = std::ceil(1.0 * c.blocks / device.multiprocessors) * rounds;  // of a multiprocessor
  const double products = warps / a.splits * a.chunks * product * 2;
  const double bytes = warps / a.splits * 16.0 * m * (a.channels * (c.tile.scaled ? 2.4 : 2.0) + 16 * n);
  const double shared = warps / a.splits * a.chunks * n * 512.0 / shared_per_cycle;
  const double work = blocks * std::max({products, bytes / bytes_per_cycle, shared});
  return start + slice_bytes(a.chunks, n) / fill_per_cycle + std::max(rounds * tile, work);
}

std::optional<Choice> search(const ConvProblem& problem, const ConvGeometry& g, const Preparation& p,
                             const Choice* like) {
  std::optional<Choice> best;
  const std::vector<Tile> tiles = p.precision == Precision::fp16 ? tiles_f16() : tiles_bf16();
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Tile& tile = tiles[i];
    if (tile.scaled != problem.scaled) continue;
    if (p.tuning.tile >= 0 && p.tuning.tile != static_cast<int>(i) / 2) continue;
    Choice c = {.tile = tile, .args = {}};
    Arguments& args = c.args;
    args.pixels = static_cast<int>(g.batch * g.out_pixels()), args.channels = g.in_channels;
    args.filters = g.out_channels;
    args.chunks = ceil_div(g.in_channels, chunk);
    args.slices = ceil_div(g.out_channels, 8 * tile.n);
    args.by_slices = Divider(args.slices), args.by_image = Divider(g.out_pixels());
    for (const int splits : {1, 2, 4, 8}) {
      if (splits > 1 && splits > args.chunks) break;
      if (p.tuning.splits > 0 && splits != p.tuning.splits) continue;
      if (like != nullptr && splits != like->args.splits) continue;
      args.splits = splits;
      args.tiles = ceil_div(args.pixels, 16 * tile.m * (warps / splits));
      c.shared_bytes = slice_bytes(args.chunks, tile.n) + (splits > 1 ? warps * tile.m * tile.n * 512 : 0);
      if (c.shared_bytes > p.device.shared_bytes) continue;
      const int fit = p.device.multiprocessor_shared_bytes / (c.shared_bytes + p.device.reserved_shared_bytes);
      const int resident = std::clamp(fit, 1, tile.resident);
      const int walkers = std::max(1, std::min(args.tiles, p.device.multiprocessors * resident / args.slices));
      c.blocks = ceil_div(args.tiles, ceil_div(args.tiles, walkers)) * args.slices;
      c.cycles = expected_cycles(c, p.device);
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
