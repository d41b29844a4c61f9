// The multiply-adds of one tile: P pixels of one output row times V vectors of filters. P * V accumulators, V weights
// and one broadcast input value fill the vector registers. Compiled once for each instruction set.
//
// Sources: of the register tile, Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008; of the
// direct form, Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures", 2018.

#ifndef LAMINA_CPU_CONV2D_BLOCKED_STEP
#define LAMINA_CPU_CONV2D_BLOCKED_STEP
#include <cstdint>
#include <type_traits>

namespace lamina::cpu {
namespace {

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
  // After each row of taps, how far ahead to fetch a line into L2: this tile's share of the next chunk's weights.
  std::int64_t ahead;
  bool relu;
};

}  // namespace
}  // namespace lamina::cpu
#endif

#if defined(LAMINA_CPU_CONV2D_BLOCKED_TILE) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_CONV2D_BLOCKED_TILE
#undef LAMINA_CPU_CONV2D_BLOCKED_TILE
#else
#define LAMINA_CPU_CONV2D_BLOCKED_TILE
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

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
      __builtin_prefetch(w + s.ahead, 0, 2);
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

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();
#endif
