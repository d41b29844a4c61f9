// Tiles of convolutions whose lanes are channels, written once and compiled for each instruction set by Highway.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/lanes_kernel.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <array>
#include <utility>

#include "lamina/cpu/conv2d/lanes.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twice as many sums, a weight and a value fit the registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int most_pixels = 8;
#else
constexpr int most_pixels = 6;
#endif

template <class D, int P, bool permutes>
HWY_NOINLINE void tile(const LanesTile& t) {
  const D d;
  const hn::RebindToSigned<D> places;
  using Vector = hn::Vec<D>;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(D()));
  const std::int64_t pixel = t.pixel, tap = t.tap;
  const Vector low = hn::Set(d, t.finish->low), high = hn::Set(d, t.finish->high);
  const float* block_weights = t.weights;
  const std::int32_t* block_places = t.places;
  for (const LaneBlock *block = t.blocks, *const end = block + t.count; block != end; ++block) {
    Vector sum[P], total[P];
    const Vector bias = hn::LoadU(d, t.bias + block->output);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sum[p] = hn::Zero(d), total[p] = bias;
    const float* row = t.input + block->input;
    const float* row_weights = block_weights;
    int left = t.flush;
    for (int rows = t.rows; rows > 0; --rows, row += t.row, row_weights += t.row_pitch) {
      const float* x = row;
      const float* w = row_weights;
      for (int taps = t.taps; taps > 0; --taps, x += tap) {
        if constexpr (permutes) {
          const std::int32_t* place = block_places;
          for (int c = t.channels; c > 0; --c, place += lanes, w += lanes) {
            const auto from = hn::IndicesFromVec(d, hn::LoadU(places, place));
            const Vector weight = hn::Load(d, w);
#pragma GCC unroll 16
            for (int p = 0; p < P; ++p) {
              const Vector value = hn::TableLookupLanes(hn::LoadU(d, x + p * pixel), from);
              sum[p] = hn::MulAdd(value, weight, sum[p]);
            }
          }
        } else {
          const Vector weight = hn::Load(d, w);
#pragma GCC unroll 16
          for (int p = 0; p < P; ++p) sum[p] = hn::MulAdd(hn::LoadU(d, x + p * pixel), weight, sum[p]);
          w += lanes;
        }
        if (--left > 0) continue;
        left = t.flush;
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          total[p] = hn::Add(total[p], sum[p]);
          sum[p] = hn::Zero(d);
        }
      }
    }
    float* const output = t.output + block->output;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      Vector y = hn::Add(total[p], sum[p]);
      if (t.residual != nullptr) y = hn::Add(y, hn::LoadU(d, t.residual + block->output + p * t.pitch));
      hn::StoreU(clamped(y, low, high), d, output + p * t.pitch);
    }
    block_weights += t.block_pitch;
    if constexpr (permutes) block_places += t.channels * lanes;
  }
}

/// Lanes of the longest vectors that there are tiles of.
#if HWY_TARGET == HWY_AVX3
constexpr int most_lanes = 16;
#elif HWY_TARGET == HWY_AVX2
constexpr int most_lanes = 8;
#elif HWY_TARGET == HWY_NEON
constexpr int most_lanes = 4;
#else
constexpr int most_lanes = 1;  // whatever Highway makes of plain C++
#endif

/// Depthwise, each pixel loaded once for all taps of a row.
template <int kernel_width, int stride, bool edges, int P>
HWY_NOINLINE void row_tile(const LanesTile& t) {
  using D = hn::CappedTag<float, most_lanes>;
  using Vector = hn::Vec<D>;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(D())), columns = (P - 1) * stride + kernel_width;
  const D d;
  const Vector low = hn::Set(d, t.finish->low), high = hn::Set(d, t.finish->high);
  // Copies: what is stored might be a part of `t`, as far as the compiler knows.
  const std::int64_t column = t.tap, row_pitch = t.row_pitch, block_pitch = t.block_pitch, pitch = t.pitch;
  const std::int64_t next_row = t.row;
  const float *const input = t.input, *const biases = t.bias, *const residuals = t.residual;
  const float* const* const table = t.pixels;
  float* const outputs = t.output;
  const int row_count = t.rows;
  const float* block_weights = t.weights;
  for (const LaneBlock *block = t.blocks, *const end = block + t.count; block != end; ++block) {
    const std::int64_t from = block->input, to = block->output;
    Vector sum[P];
    const Vector bias = hn::LoadU(d, biases + to);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sum[p] = bias;
    const float* row = input + from;
    const float* const* pixels = table;
    const float* w = block_weights;
    for (int rows = row_count; rows > 0; --rows) {
      Vector weight[kernel_width];
#pragma GCC unroll 16
      for (int k = 0; k < kernel_width; ++k) weight[k] = hn::Load(d, w + k * lanes);
#pragma GCC unroll 32
      for (int j = 0; j < columns; ++j) {
        const Vector value = hn::LoadU(d, edges ? pixels[j] + from : row + j * column);
#pragma GCC unroll 16
        for (int k = 0; k < kernel_width; ++k) {
          const int p = (j - k) / stride;
          if (j >= k && (j - k) % stride == 0 && p < P) sum[p] = hn::MulAdd(value, weight[k], sum[p]);
        }
      }
      w += row_pitch;
      if constexpr (edges) {
        pixels += columns;
      } else {
        row += next_row;
      }
    }
    float* const output = outputs + to;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      Vector y = sum[p];
      if (residuals != nullptr) y = hn::Add(y, hn::LoadU(d, residuals + to + p * pitch));
      hn::StoreU(clamped(y, low, high), d, output + p * pitch);
    }
    block_weights += block_pitch;
  }
}

template <int kernel_width, int stride, bool edges, int... index>
constexpr std::array<void (*)(const LanesTile&), sizeof...(index)> row_tiles(std::integer_sequence<int, index...>) {
  return {row_tile<kernel_width, stride, edges, index + 1>...};
}

template <int kernel_width, int stride>
struct Rows {
  using Counts = std::make_integer_sequence<int, most_pixels>;
  static constexpr auto inside = row_tiles<kernel_width, stride, false>(Counts());
  static constexpr auto edges = row_tiles<kernel_width, stride, true>(Counts());
  static constexpr LanesRows functions = {kernel_width, stride, inside.data(), edges.data()};
};

constexpr LanesRows rows[] = {Rows<3, 1>::functions, Rows<3, 2>::functions, Rows<5, 1>::functions,
                              Rows<5, 2>::functions, Rows<7, 1>::functions};

template <class D, bool permutes, int... index>
constexpr std::array<void (*)(const LanesTile&), sizeof...(index)> tiles(std::integer_sequence<int, index...>) {
  return {tile<D, index + 1, permutes>...};
}

template <int count>
struct Width {
  using D = hn::CappedTag<float, count>;
  static constexpr int lanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr auto depthwise = tiles<D, false>(std::make_integer_sequence<int, most_pixels>());
  static constexpr auto grouped = tiles<D, (lanes > 1)>(std::make_integer_sequence<int, most_pixels>());
  static constexpr LanesFunctions functions = {lanes, depthwise.data(), grouped.data()};
};

#if HWY_TARGET == HWY_AVX3
constexpr LanesFunctions widths[] = {Width<16>::functions, Width<8>::functions, Width<4>::functions,
                                     Width<1>::functions};
#elif HWY_TARGET == HWY_AVX2
constexpr LanesFunctions widths[] = {Width<8>::functions, Width<4>::functions, Width<1>::functions};
#elif HWY_TARGET == HWY_NEON
constexpr LanesFunctions widths[] = {Width<4>::functions, Width<1>::functions};
#else
constexpr LanesFunctions widths[] = {Width<1>::functions};
#endif

constexpr LanesKernel kernel = {LAMINA_SIMD_SET, most_pixels, widths, rows};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const LanesKernel> lanes_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
