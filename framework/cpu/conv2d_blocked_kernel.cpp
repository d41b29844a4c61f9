// The tile of the register-blocked convolution, written once and compiled for each instruction set by Highway.
//
// One tile is P pixels of one output row times V vectors of filters: P * V accumulators, V weights and one broadcast
// input value fill the vector registers. The reduction runs in chunks of at most 128 terms, whose sums are added up in
// `sums`: a single chain over a long reduction rounds the same way every time on a flat image, and breaks the fp32
// contract (docs/precision.md). A chunk's weights stay in the L1 cache while all tiles of the rows pass.
//
// Accumulators hold filters side by side, the output holds pixels side by side: a finished tile is transposed in blocks
// of 4 pixels on its way from `sums`, which takes a quarter of the shuffles and stores that single values would.
//
// Sources: of the register tile, Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008; of the
// direct form, Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures", 2018.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d_blocked_kernel.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "lamina/cpu/conv2d_blocked.h"

#ifndef LAMINA_CPU_CONV2D_BLOCKED_CHUNK
#define LAMINA_CPU_CONV2D_BLOCKED_CHUNK
namespace lamina::cpu {
namespace {

/// The longest chain of multiply-adds.
constexpr int chunk_terms = 128;

struct Range {
  int begin, end;
  int size() const { return std::max(0, end - begin); }
};

/// A box of the reduction [C / groups, KH, KW] of at most `chunk_terms` terms.
struct Chunk {
  Range channels, rows, taps;
};

/// Splits [0, count) into the fewest parts of at most `most`, as equal as can be; returns part `index`.
template <class T, class U>
constexpr auto parts(T count, U most) {
  return (count + most - 1) / most;
}
constexpr Range part(int count, int most, int index) {
  const int n = parts(count, most);
  const auto at = [&](int i) { return static_cast<int>(std::int64_t{count} * i / n); };
  return {at(index), at(index + 1)};
}

/// Calls body(chunk, first, last) for all chunks in order.
template <class Body>
void for_each_chunk(const ConvGeometry& g, const Body& body) {
  const int taps = std::min(g.kernel_width, chunk_terms);
  const int rows = std::clamp(chunk_terms / g.kernel_width, 1, g.kernel_height);
  const bool whole_channels = taps == g.kernel_width && rows == g.kernel_height;
  const int channels = whole_channels ? std::max(1, chunk_terms / (rows * taps)) : 1;
  const int channel_parts = parts(g.group_in_channels(), channels);
  const int row_parts = parts(g.kernel_height, rows);
  const int tap_parts = parts(g.kernel_width, taps);
  for (int c = 0; c < channel_parts; ++c) {
    for (int r = 0; r < row_parts; ++r) {
      for (int t = 0; t < tap_parts; ++t) {
        const Chunk chunk = {part(g.group_in_channels(), channels, c), part(g.kernel_height, rows, r),
                             part(g.kernel_width, taps, t)};
        body(chunk, c + r + t == 0, c + 1 == channel_parts && r + 1 == row_parts && t + 1 == tap_parts);
      }
    }
  }
}

/// One tile's share of one chunk.
struct Step {
  const float* input;    // at the first channel, row and tap, first pixel
  const float* weights;  // at the first channel, row and tap, first filter
  std::int64_t channels, rows, taps;
  // From value to value, in floats. One address runs through each of input and weights, so that the loops need few
  // registers: when they needed more, g++ kept some addresses in vector registers, where they waited for
  // multiply-adds, and the tile took a tenth longer.
  std::int64_t tap, row;                  // of the input
  std::int64_t channel_end, weights_end;  // from the last row of a channel to the first of the next
  std::int64_t pixel;                     // stride_width
  const float* before;                    // what to add to: biases [filters], or what `sums` holds
  std::int64_t next_pixel;                // from pixel to pixel of `before`
  float* sums;                            // [P, filters]
  bool relu;
};

}  // namespace
}  // namespace lamina::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

// 32 registers: 2 x 14 accumulators (NEON, whose vectors are short: 4 x 6); 16 registers: 2 x 6.
#if HWY_TARGET == HWY_AVX3
constexpr int wide_vectors = 2, wide_pixels = 14, narrow_pixels = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int wide_vectors = 4, wide_pixels = 6, narrow_pixels = 14;
#else
constexpr int wide_vectors = 2, wide_pixels = 6, narrow_pixels = 12;
#endif

/// stride: floats from pixel to pixel, 0 if only known at run time.
template <int V, int P, int stride>
HWY_NOINLINE void tile(const Step& s) {
  const Tag d;
  const std::int64_t pixel = stride > 0 ? stride : s.pixel;
  Vector sum[P][V];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d);
  }
  const float* row = s.input;
  const float* w = s.weights;
  const std::int64_t row_weights = s.taps * (V * lanes);
  for (std::int64_t c = s.rows > 0 ? s.channels : 0; c > 0; --c) {
    std::int64_t rows = s.rows;
    do {
      const float* x = row;
      const float* const row_end = w + row_weights;
      do {
        Vector weight[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) weight[v] = hn::Load(d, w + v * lanes);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          const Vector value = hn::Set(d, x[p * pixel]);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sum[p][v] = hn::MulAdd(value, weight[v], sum[p][v]);
        }
        x += s.tap;
        w += V * lanes;
      } while (w != row_end);
      row += s.row;
    } while (--rows > 0);
    row += s.channel_end;
    w += s.weights_end;
  }
  const std::int64_t next_pixel = s.next_pixel;
  float* const sums = s.sums;
  const auto finish = [&](auto relu) HWY_ATTR {
    const float* before = s.before;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p, before += next_pixel) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Vector y = hn::Add(sum[p][v], hn::Load(d, before + v * lanes));
        if constexpr (relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);  // not Max: NaN stays NaN
        hn::Store(y, d, sums + (p * V + v) * lanes);
      }
    }
  };
  s.relu ? finish(std::true_type()) : finish(std::false_type());
}

#if HWY_TARGET != HWY_SCALAR
/// Writes 4 pixels of as many filters as `d` has lanes: a 4 x 4 transposition in each 128 bits.
template <class D>
HWY_INLINE void write_pixels(D d, const float* sums, std::ptrdiff_t pitch, float* output, std::int64_t plane) {
  const hn::RepartitionToWide<D> pairs;
  const auto a = hn::Load(d, sums), b = hn::Load(d, sums + pitch);
  const auto c = hn::Load(d, sums + 2 * pitch), e = hn::Load(d, sums + 3 * pitch);
  const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab23 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce01 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             ce23 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  const decltype(a) filters[4] = {
      hn::BitCast(d, hn::InterleaveLower(pairs, ab01, ce01)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab01, ce01)),
      hn::BitCast(d, hn::InterleaveLower(pairs, ab23, ce23)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab23, ce23))};
#pragma GCC unroll 4
  for (int f = 0; f < 4; ++f) {
    if constexpr (hn::MaxLanes(D()) == 8) {
      const hn::Half<D> half;
      hn::StoreU(hn::LowerHalf(half, filters[f]), half, output + f * plane);
      hn::StoreU(hn::UpperHalf(half, filters[f]), half, output + (4 + f) * plane);
    } else {
      hn::StoreU(filters[f], d, output + f * plane);
    }
  }
}
#endif

/// Copies sums [pixels, pitch], 64-byte aligned, to output [filters, plane].
template <int pixels, int pitch>
void write_tile(const float* sums, float* output, std::int64_t plane, int filters) {
  int f = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (pixels >= 4) {
    // Of 256 bits at most: halves of those are stored without a shuffle.
    const hn::CappedTag<float, 8> d;
    constexpr int step = static_cast<int>(hn::MaxLanes(d));
    for (; f + step <= filters; f += step, sums += step, output += step * plane) {
#pragma GCC unroll 4
      for (int p = 0; p + 4 <= pixels; p += 4) write_pixels(d, sums + p * pitch, pitch, output + p, plane);
      // The last pixels, with some of those before once more.
      constexpr int last = pixels - 4;
      if constexpr (last % 4 != 0) write_pixels(d, sums + last * pitch, pitch, output + last, plane);
    }
  }
#endif
  for (; f < filters; ++f, ++sums, output += plane) {
#pragma GCC unroll 16
    for (int p = 0; p < pixels; ++p) output[p] = sums[p * pitch];
  }
}

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

template <int V, int most_pixels>
void block(const BlockedJob& job) {
  constexpr int filters = V * lanes;
  const ConvGeometry& g = *job.geometry;
  const int tiles = parts(g.out_width, most_pixels);
  const auto& compute = tiles_for<V, most_pixels>(g.stride_width);
  static constexpr auto write = write_functions<filters>(std::make_integer_sequence<int, most_pixels>());
  const std::int64_t weight_row = std::int64_t{g.kernel_width} * filters;
  const std::int64_t weight_channel = g.kernel_height * weight_row;
  for_each_chunk(g, [&](const Chunk& chunk, bool first, bool last) {
    Step step{};
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
      const int from = step.rows > 0 ? rows.begin : 0;
      // A row is in parts only if it is longer than a chunk, which then has no other: weights of rows lie side by side.
      step.channel_end = job.channel_pitch - step.rows * step.row;
      step.weights_end = weight_channel - step.rows * weight_row;
      step.weights = job.packed + filters + chunk.channels.begin * weight_channel + from * weight_row +
                     std::int64_t{chunk.taps.begin} * filters;
      const float* input =
          job.input + chunk.channels.begin * job.channel_pitch + std::int64_t{chunk.taps.begin} * g.dilation_width;
      if (step.rows > 0) input += (std::int64_t{top} + from * g.dilation_height - job.input_row) * job.row_pitch;
      float* sums = job.sums + std::int64_t{oh - job.first_row} * g.out_width * filters;
      for (int i = 0; i < tiles; ++i) {
        const Range pixels = part(g.out_width, most_pixels, i);
        const auto at = static_cast<std::size_t>(pixels.size() - 1);
        Step tile = step;
        tile.input = input + std::int64_t{pixels.begin} * g.stride_width;
        tile.sums = sums + std::int64_t{pixels.begin} * filters;
        tile.before = first ? job.packed : tile.sums;
        if (last) {
          // Fetched while the tile is computed: lines that are to be overwritten in part would be waited for.
          const float* out = job.output + std::int64_t{oh} * g.out_width + pixels.begin;
          for (int f = 0; f < job.filters; ++f, out += g.out_pixels()) __builtin_prefetch(out, 1);
        }
        compute[at](tile);
        if (last) {
          float* const output = job.output + std::int64_t{oh} * g.out_width + pixels.begin;
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

std::span<const BlockedKernel> blocked_kernels() {
  static constexpr std::array kernels = {LAMINA_SIMD_ALL(kernel)};
  return supported_kernels(std::span<const BlockedKernel>(kernels));
}

}  // namespace lamina::cpu
#endif
