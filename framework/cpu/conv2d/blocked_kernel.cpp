// The register-blocked convolution of a block of filters, written once and compiled for each instruction set by
// Highway: all chunks of the reduction, for each of them all rows, for each row its tiles.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/blocked_kernel.cpp"
#include <hwy/foreach_target.h>
//
#include <array>
#include <utility>

#include "lamina/cpu/conv2d/blocked.h"
#include "lamina/cpu/conv2d/blocked_chunks.h"
#include "lamina/cpu/conv2d/blocked_tile-inl.h"
#include "lamina/cpu/conv2d/blocked_write-inl.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

// 32 registers: 2 x 14 accumulators (NEON, whose vectors are short: 4 x 6); 16 registers: 2 x 6.
#if HWY_TARGET == HWY_AVX3
constexpr int wide_vectors = 2, wide_pixels = 14, narrow_pixels = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int wide_vectors = 4, wide_pixels = 6, narrow_pixels = 14;
#else
constexpr int wide_vectors = 2, wide_pixels = 6, narrow_pixels = 12;
#endif

using TileFunction = void (*)(const Step&);
using WriteFunction = void (*)(const float* sums, float* output, std::int64_t plane, int filters);

template <int V, int stride, int... index>
constexpr std::array<TileFunction, sizeof...(index)> tile_functions(std::integer_sequence<int, index...>) {
  return {tile<V, index + 1, stride>...};
}

template <int pitch, int... index>
constexpr std::array<WriteFunction, sizeof...(index)> write_functions(std::integer_sequence<int, index...>) {
  return {write_tile<index + 1, pitch>...};
}

/// Tiles of 1 to P pixels, by number of pixels less one.
template <int V, int P>
const std::array<TileFunction, P>& tiles_for(int stride) {
  using Counts = std::make_integer_sequence<int, P>;
  static constexpr auto one = tile_functions<V, 1>(Counts());
  static constexpr auto two = tile_functions<V, 2>(Counts());
  static constexpr auto four = tile_functions<V, 4>(Counts());
  static constexpr auto any = tile_functions<V, 0>(Counts());
  switch (stride) {
    case 1: return one;
    case 2: return two;
    case 4: return four;
    default: return any;
  }
}

/// Sums [pixels, width] to rows of channels.
void write_rows(const float* sums, int width, int pixels, const BlockedJob& job, float* output, std::int64_t pitch) {
  const Tag d;
  const RowEpilogue& finish = *job.finish;
  const Vector low = hn::Set(d, finish.low), high = hn::Set(d, finish.high);
  for (int p = 0; p < pixels; ++p, sums += width, output += pitch) {
    int f = 0;
    for (; f + lanes <= job.filters; f += lanes) {
      hn::StoreU(clamped(hn::Load(d, sums + f), low, high), d, output + f);
    }
    for (; f < job.filters; ++f) {
      const float y = sums[f] < finish.low ? finish.low : sums[f];
      output[f] = finish.high < y ? finish.high : y;
    }
  }
  if (finish.rest.empty()) return;
  output -= pixels * pitch;
  const bool whole = job.filters == pitch;  // pixels of all channels lie side by side
  for (int p = 0; p < (whole ? 1 : pixels); ++p, output += pitch) {
    apply_rest(finish, nullptr, output, job.filters * (whole ? pixels : 1));
  }
}

template <int V, int max_pixels>
void block(const BlockedJob& job) {
  constexpr int filters = V * lanes;
  const ConvGeometry& g = *job.geometry;
  const int tiles = parts(g.out_width, max_pixels);
  const auto& compute = tiles_for<V, max_pixels>(g.stride_width);
  static constexpr auto write = write_functions<filters>(std::make_integer_sequence<int, max_pixels>());
  const std::int64_t weight_row = std::int64_t{g.kernel_width} * filters;
  const std::int64_t weight_channel = g.kernel_height * weight_row;
  const std::int64_t turns = std::int64_t{job.last_row - job.first_row} * tiles;
  for_each_chunk(g, [&](const Chunk& chunk, int index, int count) {
    const bool first = index == 0, last = index + 1 == count;
    const float* const weights = job.packed + filters + chunk.channels.begin * weight_channel +
                                 chunk.rows.begin * weight_row + std::int64_t{chunk.taps.begin} * filters;
    Step step{};
    // Every tile fetches its share of what follows, of each row of taps the same lines. All at once, before a tile,
    // made some layers 30 % slower: a core has few places for lines on their way, and what the tile wants from L2 would
    // wait.
    const std::int64_t row_size = std::int64_t{chunk.taps.size()} * filters;
    step.ahead = (last ? job.next_packed - weights : chunk.terms() * filters) - row_size;
    const std::int64_t share = parts(row_size, turns);
    // Output lines too are fetched before they are overwritten in part, some with each chunk.
    const int first_line = static_cast<int>(std::int64_t{job.filters} * index / count);
    const int last_line = static_cast<int>(std::int64_t{job.filters} * (index + 1) / count);
    step.channels = chunk.channels.size();
    step.taps = chunk.taps.size();
    step.tap = g.dilation_width;
    step.row = g.dilation_height * job.row_pitch;
    step.pixel = g.stride_width;
    step.next_pixel = first ? 0 : filters;
    step.relu = last && job.relu;
    for (int oh = job.first_row; oh < job.last_row; ++oh) {
      // Rows of the kernel that fall outside of the image are left out.
      const int top = oh * g.stride_height - g.padding_height;
      const int low = top >= 0 ? 0 : parts(-top, g.dilation_height);
      const int high = top >= g.in_height ? 0 : parts(g.in_height - top, g.dilation_height);
      const Range rows = {std::max(chunk.rows.begin, low), std::min(chunk.rows.end, high)};
      step.rows = rows.size();
      const int from = step.rows > 0 ? rows.begin : chunk.rows.begin;
      // A row is in parts only if it is longer than a chunk, which then has no other: weights of rows lie side by side.
      step.channel_end = job.channel_pitch - step.rows * step.row;
      step.weights_end = weight_channel - step.rows * weight_row;
      step.weights = weights + std::int64_t{from - chunk.rows.begin} * weight_row;
      const float* input =
          job.input + chunk.channels.begin * job.channel_pitch + std::int64_t{chunk.taps.begin} * g.dilation_width;
      if (step.rows > 0) input += (std::int64_t{top} + from * g.dilation_height - job.input_row) * job.row_pitch;
      float* sums = job.sums + std::int64_t{oh - job.first_row} * g.out_width * filters;
      for (int i = 0; i < tiles; ++i) {
        const Range pixels = part(g.out_width, max_pixels, i);
        const auto at = static_cast<std::size_t>(pixels.size() - 1);
        Step tile = step;
        tile.input = input + std::int64_t{pixels.begin} * g.stride_width;
        tile.sums = sums + std::int64_t{pixels.begin} * filters;
        tile.before = first ? job.packed : tile.sums;
        const std::int64_t pixel = std::int64_t{oh} * g.out_width + pixels.begin;
        float* const output = job.output + pixel * (job.channels_last ? g.out_channels : 1);
        if (!job.channels_last) {
          for (int f = first_line; f < last_line; ++f) __builtin_prefetch(output + f * g.out_pixels(), 1);
        }
        compute[at](tile);
        step.ahead += share;
        if (!last) continue;
        if (job.channels_last) {
          write_rows(tile.sums, filters, pixels.size(), job, output, g.out_channels);
        } else {
          write[at](tile.sums, output, g.out_pixels(), job.filters);
        }
      }
    }
  });
}

constexpr BlockedKernel kernel = {
    LAMINA_SIMD_SET, lanes, wide_vectors, wide_pixels, block<wide_vectors, wide_pixels>, block<1, narrow_pixels>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const BlockedKernel> blocked_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
