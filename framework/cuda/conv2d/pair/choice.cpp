#include "lamina/cuda/conv2d/pair/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lamina/base/math.h"

namespace lamina::cuda::pair {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr int least_slice = 8 * max_fragments, most_slice = 128;  // filters
constexpr int warps = threads / 32;

int odd_units(int bytes) {
  const int units = ceil_div(bytes, unit_bytes);
  return (units % 2 == 0 ? units + 1 : units) * unit_bytes;
}

/// What a launch takes, in clock cycles: of blocks that are there at a time, or of what keeps a multiprocessor busy.
/// Fitted to 1,900 tiles of 24 pairs of mobile networks at N = 1 and 32 (experiment D8).
double expected_cycles(const Choice& c, const DeviceDescription& device) {
  constexpr double start = 3000, bytes_per_cycle = 8, l2_bytes_per_cycle = 17, each_block = 1.6;
  // Cycles an instruction of a warp takes: where warps wait for each other's phases; on a busy multiprocessor.
  constexpr double alone = 1.15, busy = 0.11;
  const Arguments& a = c.args;
  const int m = a.wide ? 2 : 1, outputs = c.instance.rows * c.instance.columns;
  const double copied = 1.0 * a.most_pixels * a.steps * 32 + ParametersOf(a.steps, a.slice, c.instance.kernel).bytes;
  const double stored = 2.0 * a.across * a.down * outputs * a.slice;
  // Instructions of a warp: for its pixels and up to four fragments; for an item of outputs.
  const auto task = [&](int fragments) {
    return fragments == 0 ? 0 : 27 + a.steps * (4.0 * m + fragments * (3 + 1.5 * m)) + m * (58.0 + fragments);
  };
  const int all = a.slice / 8, groups = ceil_div(a.most_pixels, 16 * m);
  const double tasks = 1.0 * groups * ceil_div(all, max_fragments);
  const double widening = groups * (all / max_fragments * task(max_fragments) + task(all % max_fragments));
  const int taps = c.instance.kernel * c.instance.kernel;
  const int read = ((c.instance.rows - 1) * c.instance.stride + c.instance.kernel) *
                   ((c.instance.columns - 1) * c.instance.stride + c.instance.kernel);
  const double item = 185 + c.instance.pack * (outputs * (taps + 4.0) + read);
  const double items = ceil_div(a.slice / c.instance.pack * a.across * a.down, 32);
  const double latency =
      alone * (std::ceil(tasks / warps) * widening / std::max(1.0, tasks) + std::ceil(items / warps) * item);
  const double work = busy * (widening + items * item);
  const double block = start + (copied + stored) / bytes_per_cycle + std::max(latency, work);
  const int resident =
      std::clamp(device.multiprocessor_shared_bytes / (c.shared_bytes + device.reserved_shared_bytes), 1, 2);
  const auto blocks = static_cast<double>(c.blocks);
  const double waves = std::ceil(blocks / (1.0 * device.multiprocessors * resident));
  const double full = blocks / device.multiprocessors * std::max(work, (copied + stored) / l2_bytes_per_cycle);
  return std::max(waves * block, full + start) + each_block * blocks;
}

bool fits(const Instance& instance, const ConvGeometry& g) {
  return instance.kernel == g.kernel_height && instance.stride == g.stride_height &&
         g.out_channels % instance.pack == 0;
}

}  // namespace

std::optional<Choice> choose(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const std::int64_t images = std::max<std::int64_t>(a.batch, 1);
  std::optional<Choice> best;
  int pack = 0;
  for (const Instance& instance : p.precision == Precision::fp16 ? instances_f16() : instances_bf16()) {
    if (!fits(instance, b) || instance.pack < pack) continue;
    if (p.tuning.outputs > 0 && instance.rows != std::min(p.tuning.outputs, 2)) continue;
    pack = instance.pack;
    Choice c = {.instance = instance, .args = {}};
    Arguments& args = c.args;
    args.height = a.in_height, args.width = a.in_width, args.channels = a.in_channels, args.filters = a.out_channels;
    args.out_height = b.out_height, args.out_width = b.out_width;
    args.padding_height = b.padding_height, args.padding_width = b.padding_width;
    args.steps = ceil_div(a.in_channels, 16);
    args.pixel_bytes = odd_units(args.steps * 2 * unit_bytes);
    args.copy_bytes = std::gcd(16, a.in_channels * 2);
    args.by_pieces = Divider(args.steps * 2 * unit_bytes / args.copy_bytes);
    const int wide = ceil_div(b.out_width, instance.columns), high = ceil_div(b.out_height, instance.rows);
    const int most = std::max(ceil_div(a.out_channels, most_slice), a.out_channels / least_slice);
    for (int count = ceil_div(a.out_channels, most_slice); count <= most; ++count) {
      const int slice = round_up(ceil_div(a.out_channels, count), 8);
      if (slice == args.slice) continue;
      args.slice = slice, args.slices = ceil_div(a.out_channels, slice);
      args.by_slices = Divider(args.slices), args.by_lanes = Divider(slice / instance.pack);
      args.between_bytes = odd_units(slice * 2);
      args.by_units = Divider(args.between_bytes / unit_bytes);
      for (int tiles_x = 1; tiles_x <= wide; ++tiles_x) {
        const int across = ceil_div(wide, tiles_x);
        if (ceil_div(wide, across) != tiles_x) continue;
        for (int tiles_y = 1; tiles_y <= high; ++tiles_y) {
          const int down = ceil_div(high, tiles_y);
          if (ceil_div(high, down) != tiles_y) continue;
          args.across = across, args.down = down, args.tiles_x = tiles_x, args.tiles_y = tiles_y;
          args.by_across = Divider(across);
          args.by_tiles_x = Divider(tiles_x), args.by_tiles_y = Divider(tiles_y);
          args.halo_width = (across * instance.columns - 1) * instance.stride + instance.kernel;
          args.halo_height = (down * instance.rows - 1) * instance.stride + instance.kernel;
          args.by_halo_width = Divider(args.halo_width);
          args.most_pixels = std::min(args.halo_width, args.width) * std::min(args.halo_height, args.height);
          const std::int64_t shared_bytes = ParametersOf(args.steps, slice, instance.kernel).bytes +
                                            std::int64_t{args.most_pixels} * args.pixel_bytes +
                                            std::int64_t{args.halo_width} * args.halo_height * args.between_bytes;
          if (shared_bytes > p.device.shared_bytes) continue;
          c.shared_bytes = static_cast<int>(shared_bytes);
          c.blocks = images * tiles_x * tiles_y * args.slices;
          if (c.blocks > std::numeric_limits<int>::max()) continue;
          for (const bool two : {false, true}) {
            args.wide = two;
            c.cycles = expected_cycles(c, p.device);
            if (!best || c.cycles < best->cycles) best = c;
          }
        }
      }
    }
  }
  return best;
}

/// One after the other they begin twice, write and read what lies between, mostly beyond L2's reach where it matters,
/// and multiply on wgmma. Of the 48 that were measured, 47 take less time together, most of them two thirds.
bool pays(const ConvPairProblem& problem, const Choice& choice) {
  constexpr double starts = 10000, bytes_per_cycle = 1060, flops_per_cycle = 2e5, margin = 1.25;
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const double bytes = 2.0 * static_cast<double>(a.input_size() + 2 * a.output_size() + b.output_size());
  return choice.cycles < margin * (starts + bytes / bytes_per_cycle + a.flops() / flops_per_cycle);
}

}  // namespace lamina::cuda::pair
