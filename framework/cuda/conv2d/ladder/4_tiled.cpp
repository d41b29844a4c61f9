#include "lamina/cuda/conv2d/ladder/4_tiled.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/base/math.h"

namespace lamina::cuda {
namespace {

using detail::ceil_div;
using detail::round_up;

constexpr int max_warps = 12;  // of a block

/// Terms that a stage adds to a chain at most: the kernel flushes between stages, see
/// max_chain.
constexpr int stage_terms = TiledTaps::most;

constexpr std::int64_t max_words = 1 << 20;  // of one buffer: more than any device has, and safe to multiply
constexpr int banks = 32;

/// Whether a warp's lanes that wrap into the next row of the strip go on in the banks where the row before ended.
bool rows_join(const ConvGeometry& g, const TiledPlan& plan) {
  return (std::int64_t{g.stride_height} * plan.row_pitch - plan.strip_width) % banks == 0;
}

/// Fills in what follows from the choices made so far; with `join_rows`, rows are padded so that rows_join, if any
/// padding does it. False if the stage is out of all proportion.
bool complete(const ConvGeometry& g, TiledPlan& plan, bool join_rows) {
  const int rows = plan.tile_pixels % plan.strip_width == 0
                       ? plan.tile_pixels / plan.strip_width
                       : std::min(g.out_height, (plan.tile_pixels + plan.strip_width - 2) / plan.strip_width + 1);
  plan.stage_rows = (rows - 1) * g.stride_height + (plan.stage_kernel_rows - 1) * g.dilation_height + 1;
  plan.stage_columns = (plan.strip_width - 1) * g.stride_width + (g.kernel_width - 1) * g.dilation_width + 1;
  plan.phase_pitch = ceil_div(plan.stage_columns, g.stride_width);
  plan.row_pitch = g.stride_width * plan.phase_pitch;
  if (join_rows) {
    for (int padding = 0; padding < banks && !rows_join(g, plan); ++padding) ++plan.row_pitch;
    if (!rows_join(g, plan)) plan.row_pitch -= banks;
  }
  plan.tiles =
      static_cast<int>(ceil_div<std::int64_t>(std::int64_t{g.out_height} * plan.strip_width, plan.tile_pixels));
  plan.channel_blocks = ceil_div(g.group_out_channels(), plan.block_channels());
  plan.weight_pitch = round_up(plan.block_channels(), 4);
  const std::int64_t channel_pitch = std::int64_t{plan.stage_rows} * plan.row_pitch;
  const std::int64_t input_words = round_up<std::int64_t>(plan.stage_channels * channel_pitch, 4);
  if (input_words > max_words) return false;
  plan.channel_pitch = static_cast<int>(channel_pitch);
  plan.input_words = static_cast<int>(input_words);
  plan.weight_words = plan.stage_channels * plan.stage_kernel_rows * g.kernel_width * plan.weight_pitch;
  plan.blocks = g.batch * g.groups * plan.strips * plan.tiles * plan.channel_blocks;
  return true;
}

/// Estimated cycles of the whole convolution: the larger of what a multiprocessor's share of the blocks takes in issue
/// slots, shared-memory cycles and stalls between stages that no other block fills, and of what a block takes whose
/// warps wait for their own results. The instruction counts are the compiled kernel's, the weights (0.6, 22, 185, 14,
/// 2600, 2.7) fitted to 3,493 timings of eleven convolutions on an H200: the plan that the estimate calls fastest was
/// the fastest or within 11 % of it.
double estimate(const ConvGeometry& g, const TiledPlan& plan, const TiledLimits& limits) {
  const double warps = plan.warps();
  const double outputs = plan.thread_pixels * plan.thread_channels;
  const double taps = static_cast<double>(g.reduction());
  const double stages = static_cast<double>(ceil_div(g.group_in_channels(), plan.stage_channels)) *
                        ceil_div(g.kernel_height, plan.stage_kernel_rows);
  const bool wide = plan.thread_channels % 4 == 0;  // weights come in reads of 16 bytes
  const double weight_reads = wide ? plan.thread_channels / 4 : plan.thread_channels;

  const double tap_slots = outputs + plan.thread_pixels + weight_reads + 4;
  const double flush_slots = 14 * outputs * std::ceil(taps / stage_terms);
  const double copy_slots =
      static_cast<double>(plan.stage_channels) * plan.stage_rows * (22 * ceil_div(plan.stage_columns, 32) + 185) +
      5.0 * plan.weight_words / 128;
  const double issued = warps * (taps * tap_slots + flush_slots + 500) + stages * (copy_slots + 100 * warps);
  const double conflicts = rows_join(g, plan) || plan.strip_width % banks == 0 ? 1 : 1.5;
  const double shared_cycles = warps * taps * (conflicts * plan.thread_pixels + (wide ? 2 : 1) * weight_reads);
  const double crowding = outputs > 64 ? 1.15 : 1;  // no registers are left to read ahead
  const double busy = crowding * (issued / 4 + 0.6 * shared_cycles);
  const double stalls = 2600 * stages + 100;

  const auto shared = static_cast<std::int64_t>(plan.shared_bytes()) + 1024;  // the system keeps 1 KB per block
  const std::int64_t by_registers = tiled_variants[static_cast<std::size_t>(plan.variant)].warps / plan.warps();
  const std::int64_t by_shared = static_cast<std::int64_t>(limits.shared_per_multiprocessor) / shared;
  const std::int64_t resident = std::max<std::int64_t>(1, std::min(by_registers, by_shared));
  const std::int64_t share = ceil_div<std::int64_t>(plan.blocks, limits.multiprocessors);
  const double together = static_cast<double>(share) * (busy + stalls / static_cast<double>(std::min(resident, share)));
  const double alone = std::max(2.7 * issued / warps, busy) + stalls;
  return std::max(together, static_cast<double>(ceil_div(share, resident)) * alone);
}

/// The ways to cut the reduction into stages, largest first.
std::vector<std::pair<int, int>> stagings(const ConvGeometry& g) {
  std::vector<std::pair<int, int>> result;  // channels, kernel rows
  const int window = g.kernel_height * g.kernel_width;
  for (int channels = std::min(g.group_in_channels(), std::max(1, stage_terms / window)); channels > 1; channels /= 2) {
    result.emplace_back(channels, g.kernel_height);
  }
  for (int rows = std::clamp(stage_terms / g.kernel_width, 1, g.kernel_height);; rows /= 2) {
    result.emplace_back(1, rows);
    if (rows == 1) return result;
  }
}

std::vector<int> strip_counts(const ConvGeometry& g) {
  std::vector<int> result;
  for (const int count : {1, 2, 3, 4, 5, 6, 8, ceil_div(g.out_width, 64), ceil_div(g.out_width, 32),
                          ceil_div(g.out_width, 16), ceil_div(g.out_width, 4), g.out_width}) {
    if (count <= g.out_width) result.push_back(count);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

TiledTaps tiled_taps(const ConvGeometry& g, const TiledPlan& plan) {
  TiledTaps taps;
  for (int kh = 0; kh < plan.stage_kernel_rows; ++kh) {
    for (int kw = 0; kw < g.kernel_width; ++kw) {
      const int row = kh * g.dilation_height;
      const int column = kw * g.dilation_width;
      taps.offset[kh * g.kernel_width + kw] =
          row * plan.row_pitch + column % g.stride_width * plan.phase_pitch + column / g.stride_width;
    }
  }
  return taps;
}

std::optional<TiledPlan> plan_conv2d_tiled(const ConvGeometry& g, const TiledLimits& limits) {
  std::optional<TiledPlan> best;
  // Beyond 2^30 pixels a place in the plane would not fit an int.
  if (g.kernel_width > TiledTaps::most || g.out_pixels() > 1 << 30) return best;
  double best_cost = std::numeric_limits<double>::infinity();
  const auto stages = stagings(g);
  const auto strips = strip_counts(g);

  const auto consider = [&](TiledPlan plan) {
    // Fewer pixels per tile only where shared memory asks for it.
    for (; plan.tile_pixels >= 1; plan.tile_pixels /= 2) {
      bool fits = false;
      for (const auto& [channels, kernel_rows] : stages) {
        plan.stage_channels = channels;
        plan.stage_kernel_rows = kernel_rows;
        for (const bool join_rows : {false, true}) {
          if (!complete(g, plan, join_rows)) continue;
          for (plan.buffers = 1; plan.buffers <= 2; ++plan.buffers) {
            if (plan.shared_bytes() > limits.shared_per_block) break;
            fits = true;
            // Of two plans that are estimated alike the later one has a second buffer.
            if (const double cost = estimate(g, plan, limits); cost <= best_cost) {
              best_cost = cost;
              best = plan;
            }
          }
        }
      }
      if (fits) return;
    }
  };

  for (std::size_t v = 0; v < tiled_variants.size(); ++v) {
    TiledPlan plan;
    plan.variant = static_cast<int>(v);
    plan.thread_pixels = tiled_variants[v].thread_pixels;
    plan.thread_channels = tiled_variants[v].thread_channels;
    for (plan.channel_warps = 1; plan.channel_warps <= max_warps; ++plan.channel_warps) {
      if ((plan.channel_warps - 1) * plan.thread_channels >= g.group_out_channels()) break;
      for (plan.pixel_warps = 1; plan.warps() <= std::min(max_warps, tiled_variants[v].warps); ++plan.pixel_warps) {
        for (const int count : strips) {
          plan.strips = count;
          plan.strip_width = ceil_div(g.out_width, count);
          const std::int64_t pixels = std::int64_t{g.out_height} * plan.strip_width;
          plan.tile_pixels =
              static_cast<int>(std::min<std::int64_t>(32 * plan.pixel_warps * plan.thread_pixels, pixels));
          consider(plan);
        }
      }
    }
  }
  return best;
}

std::vector<float> pack_conv2d_tiled(const ConvGeometry& g, const TiledPlan& plan, const float* weight) {
  const std::int64_t taps = g.reduction();
  std::vector<float> packed(static_cast<std::size_t>(g.groups * plan.channel_blocks * taps * plan.weight_pitch));
  for (int oc = 0; oc < g.out_channels; ++oc) {
    const int group = oc / g.group_out_channels();
    const int in_group = oc % g.group_out_channels();
    const std::int64_t block = std::int64_t{group} * plan.channel_blocks + in_group / plan.block_channels();
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      packed[static_cast<std::size_t>((block * taps + tap) * plan.weight_pitch + in_group % plan.block_channels())] =
          weight[oc * taps + tap];
    }
  }
  return packed;
}

}  // namespace lamina::cuda
