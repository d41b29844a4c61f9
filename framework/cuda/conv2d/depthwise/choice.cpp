#include "lamina/cuda/conv2d/depthwise/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lamina/base/math.h"

namespace lamina::cuda::depthwise {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr int least_slice = 8 * max_fragments, max_slice = 128;  // filters of a pair
constexpr int warps = max_threads / 32;

Arguments of_views(const ConvGeometry& g, const Preparation& p) {
  Arguments args = {};
  args.geometry = g;
  args.input_pitch = static_cast<int>(p.input().pixel_pitch());
  args.output_pitch = static_cast<int>(p.output().pixel_pitch());
  return args;
}

/// What follows from a slice and from threads' tiles; returns how many blocks there are.
std::int64_t lay_out(const Instance& instance, Arguments& a) {
  const ConvGeometry& g = a.geometry;
  a.slices = ceil_div(g.in_channels, a.slice);
  a.tiles_x = ceil_div(ceil_div(g.out_width, instance.columns), a.across);
  a.tiles_y = ceil_div(ceil_div(g.out_height, instance.rows), a.down);
  a.halo_width = (a.across * instance.columns - 1) * instance.stride + instance.kernel;
  a.halo_height = (a.down * instance.rows - 1) * instance.stride + instance.kernel;
  return std::max<std::int64_t>(g.batch, 1) * a.tiles_x * a.tiles_y * a.slices;
}

void set_divisors(Arguments& a, int pack) {
  a.by_pieces = Divider(a.pieces), a.by_slices = Divider(a.slices), a.by_lanes = Divider(a.slice / pack);
  a.by_tiles_x = Divider(a.tiles_x), a.by_tiles_y = Divider(a.tiles_y), a.by_across = Divider(a.across);
}

/// Threads of several rows of outputs read and convert less, but are fewer, and run twice the code: not for launches
/// that would leave most of a multiprocessor idle.
/// `wanted`: Tuning::outputs, at most so many rows.
bool has_threads(const Instance& instance, const ConvGeometry& g, const DeviceDescription& device, int wanted) {
  if (wanted > 0) return instance.rows <= wanted;
  const std::int64_t threads = g.batch * ceil_div(g.out_height, instance.rows) *
                               ceil_div(g.out_width, instance.columns) * (g.in_channels / instance.pack);
  return instance.rows == 1 || threads >= std::int64_t{max_threads} * device.multiprocessors;
}

bool is_for(const Instance& instance, const ConvGeometry& g) {
  return g.kernel_height == instance.kernel && g.kernel_width == instance.kernel &&
         g.stride_height == instance.stride && g.stride_width == instance.stride && g.dilation_height == 1 &&
         g.dilation_width == 1 && g.in_channels % instance.pack == 0;
}

/// Divides the work into blocks: into those that read the fewest pixels of halo and leave few threads without work, but
/// into enough for all multiprocessors.
Choice divide(const Instance& instance, const ConvGeometry& g, const Preparation& p) {
  const DeviceDescription& device = p.device;
  const int element_bytes = static_cast<int>(size_of(p.input().format.dtype));
  const Arguments views = of_views(g, p);
  const int aligned = std::gcd(std::gcd(16, static_cast<int>(p.input().alignment)), views.input_pitch * element_bytes);
  const int packs = g.in_channels / instance.pack, pack_bytes = instance.pack * element_bytes;
  const int wide = ceil_div(g.out_width, instance.columns), high = ceil_div(g.out_height, instance.rows);
  Choice best = {.instance = instance, .args = {}, .cost = std::numeric_limits<double>::infinity()};
  for (const int max_lanes : {128 / pack_bytes, 64 / pack_bytes}) {
    Choice c = {.instance = instance, .args = views};
    Arguments& a = c.args;
    // A multiple of 16 bytes, so that they are copied 16 at a time.
    const int even = ceil_div(packs, ceil_div(packs, max_lanes));
    const int lanes = std::min(round_up(even, std::max(1, 16 / pack_bytes)), packs);
    a.slice = lanes * instance.pack;
    a.pixel_bytes = round_up(lanes * pack_bytes, 16);
    if (a.pixel_bytes <= 64) a.pixel_bytes += 16;  // neighbours of a warp then lie in other banks
    a.copy_bytes = std::gcd(aligned, lanes * pack_bytes);
    a.pieces = lanes * pack_bytes / a.copy_bytes;
    for (a.across = 1; a.across <= std::min(wide, max_threads / lanes); ++a.across) {
      for (a.down = 1; a.down <= std::min(high, max_threads / lanes / a.across); a.down *= 2) {
        c.blocks = lay_out(instance, a);
        const int weights = instance.taps() * a.slice * 4;
        c.shared_bytes = a.halo_width * a.halo_height * a.pixel_bytes + weights;
        if (c.shared_bytes > std::min(shared_limit, device.shared_bytes)) continue;
        if (c.blocks > std::numeric_limits<int>::max()) continue;
        c.threads = round_up(lanes * a.across * a.down, 32);
        // In bytes: what a block reads, its weights, and what its threads would write, as if all had work; and a start.
        const double block = 1.0 * a.halo_width * a.halo_height * lanes * pack_bytes + weights +
                             1.0 * c.threads * instance.columns * instance.rows * pack_bytes + 1500;
        // A block alone takes as long as if it had a quarter of a multiprocessor.
        const double waves = std::max(0.25, static_cast<double>(c.blocks) / (4.0 * device.multiprocessors));
        c.cost = block * waves;
        if (c.cost < best.cost) best = c;
      }
    }
  }
  set_divisors(best.args, instance.pack);
  return best;
}

int odd_units(int bytes) {
  const int units = ceil_div(bytes, unit_bytes);
  return (units % 2 == 0 ? units + 1 : units) * unit_bytes;
}

/// What a launch of a pair takes, in clock cycles: of blocks that are there at a time, or of what keeps a
/// multiprocessor busy. Fitted to 1,900 tiles of 24 pairs of mobile networks at N = 1 and 32 (experiment D8).
double expected_cycles(const PairChoice& c, int element_bytes, const DeviceDescription& device) {
  constexpr double start = 3000, bytes_per_cycle = 8, l2_bytes_per_cycle = 17, each_block = 1.6;
  // Cycles an instruction of a warp takes: where warps wait for each other's phases; on a busy multiprocessor.
  constexpr double alone = 1.15, busy = 0.11;
  const PairArguments& a = c.args;
  const int m = a.wide ? 2 : 1, outputs = c.instance.rows * c.instance.columns;
  const double copied = 1.0 * a.max_pixels * a.steps * step_bytes +
                        ParametersOf(a.steps, a.slice, c.instance.taps(), c.instance.codes).bytes;
  const double stored = 1.0 * element_bytes * a.across * a.down * outputs * a.slice;
  // Instructions of a warp: for its pixels and up to four fragments; for an item of outputs.
  const auto task = [&](int fragments) {
    return fragments == 0 ? 0 : 27 + a.steps * (4.0 * m + fragments * (3 + 1.5 * m)) + m * (58.0 + fragments);
  };
  const int all = a.slice / 8, groups = ceil_div(a.max_pixels, 16 * m);
  const double tasks = 1.0 * groups * ceil_div(all, max_fragments);
  const double widening = groups * (all / max_fragments * task(max_fragments) + task(all % max_fragments));
  const double taps = 1.0 * c.instance.taps() / (c.instance.codes ? c.instance.rows : 1);  // of an output
  const int read = ((c.instance.rows - 1) * c.instance.stride + c.instance.kernel) *
                   ((c.instance.columns - 1) * c.instance.stride + c.instance.kernel);
  const double item = 185 + c.instance.pack * (outputs * (taps + 4) + read);
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

}  // namespace

Choice choose(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = p.input().format.dtype;
  for (const Instance& instance : type == DType::f16    ? instances_f16()
                                  : type == DType::bf16 ? instances_bf16()
                                  : type == DType::u8   ? instances_u8()
                                  : type == DType::i8   ? instances_i8()
                                                        : instances_f32()) {
    if (instance.kernel == 0) {
      if (g.in_channels % instance.pack != 0) continue;
      const std::int64_t work = g.output_size() / instance.pack;
      Choice any = {.instance = instance, .args = of_views(g, p)};
      any.blocks = std::min<std::int64_t>(ceil_div<std::int64_t>(work, max_threads), 1 << 30);
      return any;
    }
    if (p.device.architecture < 80 || !is_for(instance, g)) continue;
    if (!has_threads(instance, g, p.device, p.tuning.outputs)) continue;
    const Choice choice = divide(instance, g, p);
    if (choice.blocks > 0) return choice;
  }
  return {};
}

std::optional<PairChoice> choose(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.second.geometry;
  const DType type = p.input().format.dtype;
  const int element_bytes = static_cast<int>(size_of(type));
  std::optional<PairChoice> best;
  int pack = 0;
  for (const Instance& instance : type == DType::u8    ? pairs_u8()
                                  : type == DType::i8  ? pairs_i8()
                                  : type == DType::f16 ? pairs_f16()
                                                       : pairs_bf16()) {
    if (!is_for(instance, g) || instance.pack < pack) continue;
    if (p.tuning.outputs > 0 && instance.rows != std::min(p.tuning.outputs, 2)) continue;
    pack = instance.pack;
    PairChoice c = {.instance = instance, .args = {}};
    PairArguments& a = c.args;
    static_cast<Arguments&>(a) = of_views(g, p);
    a.terms = problem.first.geometry.in_channels, a.steps = ceil_div(a.terms * element_bytes, step_bytes);
    a.input_bytes = odd_units(a.steps * step_bytes);
    a.copy_bytes = std::gcd(16, a.terms * element_bytes);
    a.pieces = a.steps * step_bytes / a.copy_bytes;
    const int wide = ceil_div(g.out_width, instance.columns), high = ceil_div(g.out_height, instance.rows);
    const int most = std::max(ceil_div(g.in_channels, max_slice), g.in_channels / least_slice);
    for (int count = ceil_div(g.in_channels, max_slice); count <= most; ++count) {
      const int slice = round_up(ceil_div(g.in_channels, count), 8);
      if (slice == a.slice) continue;
      a.slice = slice, a.pixel_bytes = odd_units(slice * element_bytes);
      for (int tiles_x = 1; tiles_x <= wide; ++tiles_x) {
        a.across = ceil_div(wide, tiles_x);
        if (ceil_div(wide, a.across) != tiles_x) continue;
        for (int tiles_y = 1; tiles_y <= high; ++tiles_y) {
          a.down = ceil_div(high, tiles_y);
          if (ceil_div(high, a.down) != tiles_y) continue;
          c.blocks = lay_out(instance, a);
          a.max_pixels = std::min(a.halo_width, g.in_width) * std::min(a.halo_height, g.in_height);
          const std::int64_t shared_bytes = ParametersOf(a.steps, slice, instance.taps(), instance.codes).bytes +
                                            std::int64_t{a.max_pixels} * a.input_bytes +
                                            std::int64_t{a.halo_width} * a.halo_height * a.pixel_bytes;
          if (shared_bytes > p.device.shared_bytes || c.blocks > std::numeric_limits<int>::max()) continue;
          c.shared_bytes = static_cast<int>(shared_bytes);
          for (const bool two : {false, true}) {
            a.wide = two;
            c.cost = expected_cycles(c, element_bytes, p.device);
            if (!best || c.cost < best->cost) best = c;
          }
        }
      }
    }
  }
  if (!best) return best;
  PairArguments& a = best->args;
  set_divisors(a, best->instance.pack);
  a.by_units = Divider(a.pixel_bytes / unit_bytes), a.by_halo_width = Divider(a.halo_width);
  return best;
}

}  // namespace lamina::cuda::depthwise
