#include "lamina/cuda/conv2d/first_layer/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::first_layer {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

/// Ring rows between an output row and the lowest one that its window reads.
int halo_rows(const ConvGeometry& g) {
  const int rows = unit_rows(g.stride_height);
  return (ceil_div(g.kernel_height, rows) - 1) * rows / g.stride_height;
}

/// Ring rows that one tile of 64 positions reads.
int rows_per_tile(const Params& p) { return ceil_div(tile_pixels - 1, p.pitch) + 1 + p.halo_rows; }

/// How the input lies in memory, and how strips of it are staged.
void add_input(Params& p, Format format) {
  const int element = static_cast<int>(size_of(format.dtype));
  const bool nhwc = format.layout == Layout::nhwc;
  p.narrow = element == 2;
  p.in_channel = nhwc ? 1 : p.in_height * p.in_width;
  p.in_column = nhwc ? p.channels : 1;
  p.in_row = p.in_width * p.in_column;
  p.bulk_rows = p.in_row * element % 16 == 0;
  p.odd_lines = p.narrow ? p.in_row % 2 : 0;
  p.wide_pieces = p.stride == 4 && p.padding_width % 4 == 2 && p.bulk_rows && !nhwc;
  p.raw_planes = nhwc ? 1 : p.channels;
  p.raw_align = 16 / element;
  p.raw_column_bytes = p.in_column * element;
  const int columns = p.contiguous ? p.in_width : p.pitch * p.stride + p.raw_align - 1;  // begin at an aligned one
  p.raw_line_bytes = round_up(columns * p.raw_column_bytes + p.odd_lines * element, 16);
  p.raw_channel_bytes = nhwc ? element : p.raw_rows * p.raw_line_bytes;
  for (int e = 0; e < 8; ++e) p.tap_bytes[e] = p.tap[e].row * p.raw_line_bytes + p.tap[e].column * p.raw_column_bytes;
}

Params shape_params(const ConvGeometry& g, Format input, int strip_width) {
  Params p{};
  p.channels = g.in_channels, p.in_height = g.in_height, p.in_width = g.in_width;
  p.out_channels = g.out_channels, p.out_height = g.out_height, p.out_width = g.out_width;
  p.kernel_height = g.kernel_height, p.kernel_width = g.kernel_width;
  p.stride = g.stride_height, p.padding_height = g.padding_height, p.padding_width = g.padding_width;
  p.strip_width = strip_width;
  p.strips = ceil_div(g.out_width, strip_width);
  p.column_units = ceil_div(g.kernel_width, g.stride_width);
  p.pitch = strip_width + p.column_units - 1;
  p.tiles_per_strip = ceil_div(g.out_height * p.pitch, tile_pixels);
  p.units = static_cast<int>(g.batch) * p.strips * p.tiles_per_strip;
  p.mirror_units = tile_pixels - 1 + p.column_units;
  p.halo_rows = halo_rows(g);
  const int rows = unit_rows(p.stride);
  for (int first = 0; first < p.kernel_height; first += rows) {
    const int phase = first % p.stride;
    if (std::find(p.phase_row, p.phase_row + p.phases, phase) == p.phase_row + p.phases) {
      p.phase_row[p.phases++] = phase;
    }
  }
  p.by_pitch = Divider(p.pitch), p.by_pieces = Divider(p.pitch + 1);
  p.by_taps = Divider(p.kernel_height * p.kernel_width), p.by_kernel_width = Divider(p.kernel_width);
  p.by_tiles_per_strip = Divider(p.tiles_per_strip), p.by_out_width = Divider(p.out_width);
  for (int e = 0; e < 8; ++e) p.tap[e] = unit_tap(p.stride, e);
  for (int i = 0; i < p.phases; ++i) p.raw_rows = std::max(p.raw_rows, p.phase_row[i] + rows);
  p.contiguous = p.strips == 1;
  add_input(p, input);
  return p;
}

void add_epilogue(Params& p, const ConvProblem& problem, const View& output) {
  const Finish finish = finish_of(problem.epilogue, output.format.dtype);
  p.function = finish.kind, p.low = finish.low, p.high = finish.high;
  p.nhwc = output.format.layout == Layout::nhwc;
  if (!problem.epilogue.pool) return;
  const PoolGeometry& pool = *problem.epilogue.pool;
  p.pool_kernel = pool.kernel_height, p.pool_stride = pool.stride_height, p.pool_padding = pool.padding_height;
  p.pool_height = pool.out_height, p.pool_width = pool.out_width;
  p.pool_pitch = static_cast<int>(output.pixel_pitch());
  p.by_pool_height = Divider(p.pool_height);
  p.units = static_cast<int>(problem.geometry.batch) * p.pool_height;
}

/// The most tiles that one of `ranges` blocks has.
int tiles_of_block(const Params& p, int ranges) {
  const int units = ceil_div(p.units, ranges);
  if (p.pool_kernel == 0) return units;
  // Ranges overlap: each needs all rows of its windows.
  const int images = ceil_div(units, p.pool_height);
  const int rows = std::min((units - images) * p.pool_stride + images * p.pool_kernel, images * p.out_height);
  return ceil_div(rows * p.pitch, tile_pixels);
}

/// The plan for `filters` per block and one strip width, or nothing if it does not fit.
std::optional<Plan> fit(const ConvProblem& problem, const Preparation& preparation, const Limits& limits, int filters,
                        int strip_width) {
  const ConvGeometry& g = problem.geometry;
  Plan plan;
  plan.split = row_of(preparation.precision).parts > 1;
  plan.filters = filters;
  Params& p = plan.params = shape_params(g, preparation.input().format, strip_width);
  add_epilogue(p, problem, preparation.output());
  order_steps(p);
  p.splits = ceil_div(g.out_channels, filters);
  p.one_run = p.nhwc && p.contiguous && g.out_channels == filters;
  const int parts = plan.split ? 2 : 1;
  const int weight_bytes = p.steps * parts * filters * 32;
  const int element = static_cast<int>(size_of(preparation.output().format.dtype));
  if (problem.epilogue.pool) {
    p.buffers = pool_buffers, p.buffer_bytes = tile_pixels * filters * element;
    if (p.strips > 1 || ceil_div(p.out_width - 1, tile_pixels) + 1 > pool_buffers) return std::nullopt;
    if (p.pool_width > pool_tasks(element) * (128 * 16 / (filters * element))) return std::nullopt;
  } else {
    p.buffers = limits.computing_groups, p.buffer_bytes = buffer_bytes(filters, element);
  }
  const int store_bytes = p.buffers * p.buffer_bytes;
  const int raw_bytes = limits.raw_slots * p.raw_planes * p.raw_rows * p.raw_line_bytes;
  p.exact_scratch_bytes =
      exact_header_bytes + round_up(static_cast<int>(g.reduction()), exact_unroll) * exact_pixels * 4;
  const int exact_bytes = limits.computing_groups * p.exact_scratch_bytes;
  const int unit_planes = parts * p.phases * p.channels * unit_bytes;
  const int ring_limit =
      (limits.shared_bytes - weight_bytes - store_bytes - raw_bytes - exact_bytes) / unit_planes - p.mirror_units;
  const int needed = std::max(rows_per_tile(p), ceil_div(p.mirror_units, p.pitch));
  const int ranges = std::clamp(limits.multiprocessors / p.splits, 1, p.units);
  const int waves = tiles_of_block(p, ranges);
  // More ring than one block will ever fill only delays its start.
  const int useful = std::max(needed, ceil_div(waves * tile_pixels, p.pitch) + 2 + 2 * p.halo_rows);
  p.ring_rows = std::min({ring_limit / p.pitch, useful, max_ring_rows});
  if (ring_limit < 0 || p.ring_rows < needed) return std::nullopt;
  p.plane_units = p.ring_rows * p.pitch + p.mirror_units;
  order_steps(p);
  p.share = p.units / ranges, p.larger_shares = p.units % ranges;
  plan.blocks = ranges * p.splits;
  p.exact_scratch = weight_bytes + unit_planes * p.plane_units + store_bytes + raw_bytes;
  plan.shared_bytes = p.exact_scratch + exact_bytes;
  return plan;
}

/// Clocks until the last block is done. A k16 step reads A (16 clocks of shared memory) and B (columns / 4) and
/// multiplies for columns / 2; staging and storing share the memory; every tile costs some handing over, as measured;
/// weights come in at about 40 bytes a clock. Blocks on at most half of the multiprocessors do not wait for them: the
/// other half takes the next call's blocks, which load theirs before this one is done.
double clocks(const Plan& plan, const Limits& limits) {
  const Params& p = plan.params;
  const int n = plan.filters;
  const double step = plan.split ? std::max(1.5 * n, 32 + 0.75 * n) : std::max(0.5 * n, 16 + 0.25 * n);
  const double stage = 96.0 * p.phases * p.channels * (plan.split ? 2 : 1) * p.pitch / p.strip_width / 6;
  const double tile = p.steps * step + stage + 4.0 * n + 1200;
  const double waves = tiles_of_block(p, plan.blocks / p.splits);
  const double weights = p.steps * n * 32.0 * (plan.split ? 2 : 1) / 40;
  return waves * tile + rows_per_tile(p) * 400.0 + (2 * plan.blocks <= limits.multiprocessors ? 0 : weights);
}

}  // namespace

bool poolable(const ConvProblem& problem, const Preparation& preparation) {
  const ConvGeometry& g = problem.geometry;
  const PoolGeometry& pool = *problem.epilogue.pool;
  const bool square = pool.kernel_height == pool.kernel_width && pool.stride_height == pool.stride_width &&
                      pool.padding_height == pool.padding_width;
  // One row of the map may be the last of a window and the first of the next, no more.
  return square && pool.dilation_height == 1 && pool.dilation_width == 1 && pool.kernel_height <= 3 &&
         pool.kernel_height <= pool.stride_height + 1 && preparation.output().format.layout == Layout::nhwc &&
         pool.in_height == g.out_height && pool.in_width == g.out_width && pool.out_height > 0 && pool.out_width > 0 &&
         g.out_channels * size_of(preparation.output().format.dtype) % 16 == 0;
}

bool expressible(const ConvGeometry& g) {
  if (g.groups != 1 || g.dilation_height != 1 || g.dilation_width != 1) return false;
  if (g.stride_height != g.stride_width || g.stride_height > 4) return false;
  if (g.in_channels > 4 || g.kernel_height > 11 || g.kernel_width > 11) return false;
  const auto fits = [](std::int64_t count) { return count <= std::numeric_limits<int>::max() / 8; };
  if (!fits(g.in_pixels() * g.in_channels) || !fits(g.out_pixels()) || !fits(g.batch)) return false;
  // Tiles are counted in int: 64 positions each, at most 11 positions per output pixel.
  if (static_cast<double>(g.batch) * static_cast<double>(g.out_pixels()) * 11 / tile_pixels +
          static_cast<double>(g.batch) * g.out_width >
      1e9) {
    return false;
  }
  const Params p = shape_params(g, {}, 1);
  const int units = ceil_div(g.kernel_height, unit_rows(p.stride)) * g.in_channels * p.column_units;
  const int groups = std::min(halo_rows(g) + 1, ceil_div(g.kernel_height, unit_rows(p.stride)));
  return units / 2 + groups * steps_per_round <= max_steps && groups <= max_groups;
}

Steps order_steps(Params& p) {
  Steps steps;
  const int rows = unit_rows(p.stride);
  p.steps = p.groups = 0;
  for (int shift = 0; shift <= p.halo_rows; ++shift) {
    std::vector<Unit> units;
    std::vector<int> first;  // their distance from the window's first unit in the first plane
    for (int phase = 0; phase < p.phases; ++phase) {
      const int kernel_row = shift * p.stride + p.phase_row[phase];
      if (kernel_row % rows != 0 || kernel_row >= p.kernel_height) continue;
      for (int c = 0; c < p.channels; ++c) {
        for (int u = 0; u < p.column_units; ++u) {
          units.push_back({c, kernel_row, u * p.stride});
          first.push_back((phase * p.channels + c) * p.plane_units + u);
        }
      }
    }
    if (units.empty()) continue;
    while (units.size() % (2 * steps_per_round) != 0) {
      units.push_back({0, 0, 0, true});
      first.push_back(first.back());  // any staged unit will do: its weights are zero
    }
    const int begin = p.steps;
    for (std::size_t i = 0; i < units.size(); i += 2, ++p.steps) {
      steps.unit[p.steps][0] = units[i], steps.unit[p.steps][1] = units[i + 1];
      p.step[p.steps] = static_cast<std::uint32_t>(first[i]) | static_cast<std::uint32_t>(first[i + 1] - first[i])
                                                                   << 16;
    }
    p.group[p.groups++] = {shift, begin, p.steps};
  }
  return steps;
}

namespace {

/// The fastest by estimate; `only`: of those with so many filters per block, if it is not 0.
std::optional<Plan> search(const ConvProblem& problem, const Preparation& preparation, const Limits& limits, int only) {
  const int width = problem.geometry.out_width;
  const bool split = row_of(preparation.precision).parts > 1;
  std::optional<Plan> best;
  for (const int filters : {32, 48, 64, 96}) {
    if ((split && filters > 48) || (only != 0 && filters != only)) continue;
    std::optional<Plan> candidate;
    // Whole rows if they fit; else the fewest equal strips that do.
    for (int strips = 1; !candidate && strips <= width; strips *= 2) {
      candidate = fit(problem, preparation, limits, filters, ceil_div(width, strips));
    }
    if (candidate && (!best || clocks(*candidate, limits) < clocks(*best, limits))) best = candidate;
  }
  return best;
}

}  // namespace

/// The order of sums is the geometry's. But the filters of a block decide how wide strips are, and a strip's width
/// which windows are suspected of values that tensor cores must not touch, and so are added up by themselves.
std::optional<Plan> plan(const ConvProblem& problem, const Preparation& preparation, const Limits& limits) {
  if (!preparation.batch_invariant) return search(problem, preparation, limits, 0);
  ConvProblem usual = problem;
  usual.geometry = lamina::detail::of_images(problem.geometry, preparation, 32);
  const auto like = search(usual, preparation, limits, 0);
  return like ? search(problem, preparation, limits, like->filters) : std::nullopt;
}

}  // namespace lamina::cuda::first_layer
