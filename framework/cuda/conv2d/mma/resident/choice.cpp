#include "lamina/cuda/conv2d/mma/resident/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::mma::resident {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr int max_pixels_of_a_row = 1 << 20;

struct Need {
  bool codes, split;
  int element_bytes;
  explicit Need(const Preparation& p)
      : codes(p.has_codes()),
        split(!codes && p.precision == Precision::fp32),
        element_bytes(codes ? 1 : static_cast<int>(size_of(storage_type(p.precision)))) {}
  int unit_elements() const { return unit_bytes / element_bytes; }
};

std::vector<Tile> tiles_of(const Preparation& p) {
  if (!p.has_codes()) return resident::tiles_of(p.precision);
  return p.input().format.dtype == DType::u8 ? tiles_u8() : tiles_i8();
}

/// The bundles of at most `most` filters whose products are the fewest.
Bundling bundle_groups(const ConvGeometry& g, const Need& need, int most) {
  const int in = g.group_in_channels(), out = g.group_out_channels();
  Bundling best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](int packed, int parts) {
    Bundling b{.packed = packed, .parts = parts, .filters = ceil_div(out, parts) * packed, .channels = in * packed};
    if (parts > 1) b.filters = round_up(ceil_div(out, parts), 8), b.parts = ceil_div(out, b.filters);
    if (b.filters > round_up(most, 8)) return;
    b.count = b.parts > 1 ? g.groups * b.parts : ceil_div(g.groups, packed);
    const double filters = round_up(need.codes ? most : b.filters, 8);
    const double cost = static_cast<double>(b.count) * round_up(b.channels, need.unit_elements()) * filters;
    if (cost >= least) return;
    least = cost, best = b;
  };
  if (out > most) {
    consider(1, ceil_div(out, most));
  } else {
    for (int packed = 1; packed * out <= most && packed <= g.groups; ++packed) consider(packed, 1);
  }
  return best;
}

/// One axis in steps of what any window looks at.
Axis axis_of(int kernel, int stride, int dilation) {
  Axis axis;
  axis.step = kernel > 1 ? std::gcd(stride, dilation) : stride;
  axis.stride = stride / axis.step, axis.dilation = kernel > 1 ? dilation / axis.step : 0;
  return axis;
}

void cut(Axis& axis, int tile, int size, int kernel) {
  axis.tile = tile, axis.tiles = ceil_div(size, tile);
  axis.halo = (tile - 1) * axis.stride + (kernel - 1) * axis.dilation + 1;
}

/// Whether the loop for windows of 3 x 3 is for it: groups that one unit of channels and one fragment of filters hold.
bool is_window(const ConvGeometry& g, const Need& need, const std::vector<Tile>& tiles) {
  return g.kernel_height == 3 && g.kernel_width == 3 && g.dilation_height == 1 && g.dilation_width == 1 &&
         g.group_in_channels() <= need.unit_elements() && g.group_out_channels() <= 8 &&
         g.stride_height == g.stride_width &&
         std::ranges::any_of(tiles, [&](const Tile& tile) { return tile.stride == g.stride_width; });
}

/// What the products of a block take, in clock cycles: of warps alone, and of a multiprocessor that is full of them.
struct Work {
  double alone = 0, full = 0;
};
Work work_of(const Choice& c, const Need& need) {
  const Arguments& a = c.args;
  const int m = c.tile.m, n = c.tile.n;
  const double product = need.split ? 24 : 8;  // of a warp alone, 16 x 8
  if (!a.window) {
    constexpr double step = 34, beside_products = 12, barriers = 80;  // of a chunk; floats' tiles were fitted without
    const int rounds = ceil_div(a.block_bundles, c.tile.warps_n());
    const double alone = 1.0 * rounds * a.chunks * a.steps * std::max(step, beside_products + product * m * n) +
                         (need.codes ? barriers * (a.chunks - 1) : 0);
    return {alone, alone};
  }
  // A rectangle of a bundle: each unit's first loads, then products; then the way out. Full: slots to issue it.
  constexpr double step = 34, loads = 80, finish = 250, slots = 30, slots_pair = 27;
  const int rectangles = ceil_div(a.x.tile, 8) * ceil_div(a.y.tile, 2 * m);
  const int runs = rectangles * ceil_div(a.block_bundles, a.run);
  const double task = a.units * (loads + 6 * std::max(step, product * m * n)) + finish + 40 * m * n;
  const double task_full = (a.units * (slots + 9.0 * m * n) + 50 + slots_pair * m * n) / 4 * 1.6;
  return {ceil_div(runs, threads / 32) * a.run * task, rectangles * a.block_bundles * task_full};
}

/// Bytes of what comes as runs of `run` bytes, in whole sectors of memory.
double in_sectors(double bytes, int run) {
  constexpr int sector = 64;
  return bytes * round_up(run, sector) / run;
}

/// What a launch takes, in clock cycles: of blocks that are there at a time, or of memory and tensor cores if those
/// are busy throughout.
double expected_cycles(const Choice& c, const Need& need, const DeviceDescription& device) {
  constexpr double start = 2500, bytes_per_cycle = 20, l2_bytes_per_cycle = 32;
  const Arguments& a = c.args;
  double copied = 1.0 * a.chunks * a.stage_bytes;
  double stored = 1.0 * a.y.tile * a.x.tile * a.block_bundles * a.bundling.filters * need.element_bytes;
  if (a.window) {
    copied += in_sectors(a.weight_offset, a.bundling.channels * a.block_bundles * need.element_bytes) - a.weight_offset;
    stored = in_sectors(stored, a.run * a.bundling.filters * need.element_bytes);
  }
  const Work work = work_of(c, need);
  const double block = start + copied / bytes_per_cycle + work.alone + stored / bytes_per_cycle;
  const int resident =
      std::clamp(device.multiprocessor_shared_bytes / std::max(1, c.shared_bytes + device.reserved_shared_bytes), 1,
                 c.tile.m * c.tile.n > 16  ? 2
                 : c.tile.m * c.tile.n > 8 ? 3
                                           : 4);
  const double at_once = static_cast<double>(device.multiprocessors) * resident;
  const double waves = std::ceil(static_cast<double>(c.blocks) / at_once);
  const double full = static_cast<double>(c.blocks) / device.multiprocessors *
                      std::max(work.full, (copied + stored) / l2_bytes_per_cycle);
  return std::max(waves * block, full + start);
}

/// Blocks of `bundles` bundles on a tile, `units` units of channels at a time; nothing if they cannot be.
std::optional<Choice> divided(const ConvGeometry& g, const Need& need, const Tile& tile, const Bundling& bundling,
                              bool window, int units, int bundles) {
  const int all_units = ceil_div(bundling.channels, need.unit_elements()), taps = g.kernel_height * g.kernel_width;
  const bool aligned = bundling.channels % need.unit_elements() == 0;
  const bool shared = g.groups == 1 || bundling.parts > 1, one_group = g.groups == 1;
  Choice c{.tile = tile, .args = {}};
  Arguments& a = c.args;
  a.geometry = g;
  a.bundling = bundling;
  a.fragments = tile.n;
  a.window = window;
  a.units = units;
  a.chunks = ceil_div(all_units, a.units);
  a.steps = window ? a.units * window_slots / 2 : ceil_div(taps * a.units, 2);
  a.stages = std::min(a.chunks, max_stages);
  a.shared = shared;
  // Sums of several chunks stay in registers; bundles of one group share channels, others follow each other.
  if (a.chunks > 1 ? window || bundles > (one_group ? tile.warps_n() : 1)
                   : bundles > 1 && !one_group && (shared || (!aligned && !need.codes)))
    return {};
  if (bundles > std::max(bundling.count, tile.warps_n())) return {};
  if (bundles < tile.warps_n() && tile.warps_n() <= bundling.count) return {};
  a.block_bundles = std::min(bundles, bundling.count);
  if (a.block_bundles == 1) a.shared = true;
  a.bundle_blocks = ceil_div(bundling.count, a.block_bundles);
  a.run = bundling.filters == tile.n * 8 ? tile.run : 1;
  const int pixel_units = a.shared ? a.units : a.units * a.block_bundles;
  a.pixel_bytes = (pixel_units | 1) * unit_bytes;
  a.copy_bytes = std::gcd(16, g.in_channels * need.element_bytes);
  if (g.groups > 1) a.copy_bytes = std::gcd(a.copy_bytes, bundling.channels * need.element_bytes);
  a.store_width = std::gcd(need.unit_elements(), std::gcd(g.out_channels, bundling.filters));
  if (bundling.parts > 1) a.store_width = std::gcd(a.store_width, g.group_out_channels());
  a.biases_offset = window ? 0 : round_up(a.steps * 2 * static_cast<int>(sizeof(int)), 16);
  const int words = need.codes ? 2 : window ? 1 : 0;  // of a filter's bias
  a.ring_offset = a.biases_offset + words * a.block_bundles * tile.n * 8 * static_cast<int>(sizeof(float));
  return c;
}

/// Calls f with all ways to divide the work; `like`: those that add up in its order.
template <class F>
void each_choice(const ConvGeometry& g, const Preparation& p, const Choice* like, bool window, const F& f) {
  const Need need(p);
  const auto all = tiles_of(p);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    if (p.tuning.tile >= 0 && static_cast<std::size_t>(p.tuning.tile) != i) continue;
    if (tile.stride != (window ? g.stride_width : 0)) continue;
    const Bundling bundling = bundle_groups(g, need, tile.n * 8);
    if (bundling.count == 0 || (like != nullptr && like->args.bundling.packed != bundling.packed)) continue;
    const int all_units = ceil_div(bundling.channels, need.unit_elements());
    for (const int units : {all_units, 8, 4, 2, 1}) {
      if (units > all_units || (units == all_units && all_units > 16)) continue;
      if (like != nullptr && like->args.units != units) continue;
      for (const int bundles : {16, 8, 4, 2, 1}) {
        auto c = divided(g, need, tile, bundling, window, units, bundles);
        if (!c) continue;
        Arguments& a = c->args;
        const int weight_bytes = a.steps * step_bytes_of(need.split, tile.n) * a.block_bundles;
        a.y = axis_of(g.kernel_height, g.stride_height, g.dilation_height);
        a.x = axis_of(g.kernel_width, g.stride_width, g.dilation_width);
        const auto consider = [&](int height, int width) {
          cut(a.y, height, g.out_height, g.kernel_height);
          cut(a.x, width, g.out_width, g.kernel_width);
          if (window && a.x.stride == 2) a.x.apart = ceil_div(a.x.halo, 2);
          const std::int64_t pixel_bytes = std::int64_t{a.y.halo} * a.x.row() * a.pixel_bytes;
          const std::int64_t shared_bytes =
              a.ring_offset + a.stages * (pixel_bytes + weight_bytes) + std::int64_t{threads / 32} * tile.results_bytes;
          if (shared_bytes > p.device.shared_bytes || a.x.halo > max_pixels_of_a_row) return;
          a.weight_offset = static_cast<int>(pixel_bytes);
          a.stage_bytes = static_cast<int>(pixel_bytes) + weight_bytes;
          a.results_offset = a.ring_offset + a.stages * a.stage_bytes;
          c->shared_bytes = static_cast<int>(shared_bytes);
          c->blocks = g.batch * a.y.tiles * a.x.tiles * a.bundle_blocks;
          if (c->blocks <= std::numeric_limits<int>::max()) f(*c);
        };
        // Of each number of blocks along an axis, the smallest tiles that suffice.
        if (window) {
          const auto evenly = [](int count, int unit, const auto& use) {
            int last = 0;
            for (int tiles = 1; tiles <= count; ++tiles) {
              const int each = ceil_div(count, tiles);
              if (each != last) use(each * unit);
              last = each;
            }
          };
          evenly(ceil_div(g.out_height, 2 * tile.m), 2 * tile.m,
                 [&](int height) { evenly(ceil_div(g.out_width, 8), 8, [&](int width) { consider(height, width); }); });
          continue;
        }
        int last_height = 0;
        for (int width = std::min(g.out_width, tile.pixels()); width >= 1; --width) {
          const int height = std::min(g.out_height, tile.pixels() / width);
          // The widest of each height, evenly divided.
          if (height == last_height) continue;
          last_height = height;
          consider(ceil_div(g.out_height, ceil_div(g.out_height, height)),
                   ceil_div(g.out_width, ceil_div(g.out_width, width)));
        }
      }
    }
  }
}

void set_dividers(Choice& c) {
  Arguments& a = c.args;
  const int pixel_units = a.shared ? a.units : a.units * a.block_bundles;
  a.by_bundle_blocks = Divider(a.bundle_blocks);
  a.by_units = Divider(a.units), a.by_kernel_width = Divider(a.geometry.kernel_width);
  a.by_pieces = Divider(pixel_units * unit_bytes / a.copy_bytes);
  a.by_tiles_x = Divider(a.x.tiles), a.by_tiles_y = Divider(a.y.tiles), a.by_tile_x = Divider(a.x.tile);
  if (a.window)
    a.by_columns = Divider(a.x.tile / 8), a.by_rectangles = Divider(a.x.tile / 8 * (a.y.tile / 2 / c.tile.m));
}

/// The fastest by estimate; `like`: among those that add up in its order.
std::optional<Choice> search(const ConvGeometry& g, const Preparation& p, const Choice* like) {
  const Need need(p);
  if (g.kernel_height > 256 || g.kernel_width > 256 || g.kernel_height * g.kernel_width > 4096) return {};
  if (g.out_pixels() > std::numeric_limits<int>::max()) return {};
  std::optional<Choice> best;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const bool window : {true, false}) {
    if (best || (like != nullptr ? like->args.window != window : window && !is_window(g, need, tiles_of(p)))) continue;
    each_choice(g, p, like, window, [&](const Choice& c) {
      const double cycles = expected_cycles(c, need, p.device);
      if (cycles >= best_cycles) return;
      best_cycles = cycles;
      best = c;
    });
  }
  if (best) set_dividers(*best);
  return best;
}

}  // namespace

std::vector<Tile> tiles_of(Precision precision) {
  constexpr std::vector<Tile> (*in_order[])() = {tiles_fp32, tiles_tf32, tiles_fp16, tiles_bf16};  // of Precision
  return in_order[static_cast<std::size_t>(precision)]();
}

ConvGeometry flattened(const ConvGeometry& geometry) {
  ConvGeometry g = geometry;
  g.batch = std::max<std::int64_t>(g.batch, 1);  // an empty batch is prepared as one of one image
  if (!lamina::detail::is_of_pixels(g)) return g;
  const std::int64_t pixels = g.batch * g.out_pixels();
  if (pixels > std::numeric_limits<int>::max() / 2) return g;
  g.batch = 1, g.in_height = g.out_height = 1;
  g.in_width = g.out_width = static_cast<int>(pixels);
  g.dilation_height = g.dilation_width = 1;
  return g;
}

std::optional<Choice> choose(const ConvGeometry& geometry, const Preparation& preparation) {
  constexpr std::int64_t usual_batch = 32;
  if (preparation.has_codes()) return search(flattened(geometry), preparation, nullptr);  // sums have no order
  // The order of K is the layer's: what is best for some usual batch.
  ConvGeometry usual = geometry;
  usual.batch = usual_batch;
  const auto order = search(flattened(usual), preparation, nullptr);
  return order ? search(flattened(geometry), preparation, &*order) : std::nullopt;
}

}  // namespace lamina::cuda::mma::resident
