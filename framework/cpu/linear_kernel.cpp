// Fully connected layers as dot products, written once and compiled for each instruction set by Highway.
//
// A tile is R rows of inputs times O rows of weights: R * O vectors of sums, each of whose lanes is a chain of at most
// 64 terms. Weights are read where they lie, row by row. For few rows that is all the time there is: eight rows of
// weights are read side by side, since one stream of cache lines reaches half of the memory's rate (docs/cpu.md), and
// every weight meets all rows of the input at once. For many rows a block of terms of the weights stays in the L2 cache
// while the rows pass, and a block of a tile's inputs in L1.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/linear_kernel.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lamina/cpu/linear_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));
constexpr std::int64_t block = lanes == 1 ? 128 : 64 * lanes;  // terms

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int most_rows = 8;
/// Rows of weights in a tile of so many rows of inputs: sums, and the smaller of the two, fill 32 registers.
constexpr int outputs_for(int rows) { return rows <= 2 ? 8 : rows <= 4 ? 6 : rows <= 6 ? 4 : 3; }
#else
constexpr int most_rows = 4;
constexpr int outputs_for(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : 3; }
#endif

/// Weights as they are stored, and how a vector of them becomes floats.
struct F32 {
  using Stored = float;
  static Vector load(const Stored* w) { return hn::LoadU(Tag(), w); }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static Vector load(const Stored* w) {
    const hn::RebindToUnsigned<Tag> words;
    const hn::Rebind<std::uint16_t, Tag> halves;
    return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, w))));
  }
};

struct F16 {
  using Stored = std::uint16_t;
  static Vector load(const Stored* w) {
    const hn::Rebind<hwy::float16_t, Tag> halves;
    return hn::PromoteTo(Tag(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(w)));
  }
};

template <class Weights>
struct Tile {
  const float* input;  // [R, count], rows input_pitch apart
  std::int64_t input_pitch;
  const typename Weights::Stored* weight;  // [O, count], rows weight_pitch apart
  std::int64_t weight_pitch;
  std::int64_t count;
  std::int64_t ahead;  // weights from each to the one that will be wanted soon
  float* sums;         // [R, O]
};

/// sum[r][o] += the products of one vector of terms.
template <class Weights, int R, int O>
HWY_INLINE void multiply(const float* input, std::int64_t input_pitch, const typename Weights::Stored* weight,
                         std::int64_t weight_pitch, Vector (&sum)[R][O]) {
  const Tag d;
  if constexpr (O <= R) {
    Vector w[O];
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) w[o] = Weights::load(weight + o * weight_pitch);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vector x = hn::LoadU(d, input + r * input_pitch);
#pragma GCC unroll 8
      for (int o = 0; o < O; ++o) sum[r][o] = hn::MulAdd(x, w[o], sum[r][o]);
    }
  } else {
    Vector x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = hn::LoadU(d, input + r * input_pitch);
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) {
      const Vector w = Weights::load(weight + o * weight_pitch);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r][o] = hn::MulAdd(x[r], w, sum[r][o]);
    }
  }
}

template <class Weights, int R, int O>
HWY_NOINLINE void tile(const Tile<Weights>& t) {
  using Stored = typename Weights::Stored;
  const Tag d;
  Vector sum[R][O];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[r][o] = hn::Zero(d);
  }
  const float* input = t.input;
  const Stored* weight = t.weight;
  std::int64_t k = 0;
  for (; k + lanes <= t.count; k += lanes, input += lanes, weight += lanes) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) hwy::Prefetch(weight + o * t.weight_pitch + t.ahead);
    multiply<Weights, R, O>(input, t.input_pitch, weight, t.weight_pitch, sum);
  }
  if (k < t.count) {  // one more vector, filled up with zeros
    float inputs[R * lanes] = {};
    Stored weights[O * lanes] = {};
    const auto rest = static_cast<std::size_t>(t.count - k);
    for (int r = 0; r < R; ++r) std::memcpy(inputs + r * lanes, input + r * t.input_pitch, rest * sizeof(float));
    for (int o = 0; o < O; ++o) std::memcpy(weights + o * lanes, weight + o * t.weight_pitch, rest * sizeof(Stored));
    multiply<Weights, R, O>(inputs, lanes, weights, lanes, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) t.sums[r * O + o] = hn::GetLane(hn::SumOfLanes(d, sum[r][o]));
  }
}

/// What is done for R rows: tiles of outputs_for(R) outputs, and of one for those left over.
template <class Weights>
struct RowTile {
  int outputs;
  void (*wide)(const Tile<Weights>&);
  void (*single)(const Tile<Weights>&);
};

template <class Weights, int... index>
constexpr std::array<RowTile<Weights>, sizeof...(index)> row_tiles(std::integer_sequence<int, index...>) {
  return {RowTile<Weights>{outputs_for(index + 1), tile<Weights, index + 1, outputs_for(index + 1)>,
                           tile<Weights, index + 1, 1>}...};
}

/// A tile of `rows` x `outputs` at [row, output]: adds the terms [k, k + count) to what the outputs hold.
template <class Weights>
void add_terms(const LinearJob& job, std::int64_t row, int rows, std::int64_t first, int outputs, std::int64_t k,
               std::int64_t ahead, void (*run)(const Tile<Weights>&)) {
  const std::int64_t count = std::min(block, job.in - k);
  float sums[most_rows * 8];
  run({.input = job.input + row * job.in + k,
       .input_pitch = job.in,
       .weight = static_cast<const typename Weights::Stored*>(job.weight) + first * job.in + k,
       .weight_pitch = job.in,
       .count = count,
       .ahead = ahead,
       .sums = sums});
  const bool last = k + count == job.in;
  for (int r = 0; r < rows; ++r) {
    float* const out = job.output + (row + r) * job.out + first;
    for (int o = 0; o < outputs; ++o) {
      const float before = k > 0 ? out[o] : job.bias != nullptr ? job.bias[first + o] : 0.0f;
      const float y = before + sums[r * outputs + o];
      out[o] = last && job.relu && y < 0.0f ? 0.0f : y;
    }
  }
}

template <class Weights>
void run(const LinearJob& job) {
  static constexpr auto tiles = row_tiles<Weights>(std::make_integer_sequence<int, most_rows>());
  const bool streams = job.rows <= most_rows;
  // Terms are the outer loop for many rows, the inner one where the weights pass once.
  for (std::int64_t from = 0; from < job.in; from += streams ? job.in : block) {
    const std::int64_t to = streams ? job.in : from + 1;
    for (std::int64_t row = 0; row < job.rows; row += most_rows) {
      const auto rows = static_cast<int>(std::min<std::int64_t>(most_rows, job.rows - row));
      const RowTile<Weights>& best = tiles[static_cast<std::size_t>(rows - 1)];
      for (std::int64_t o = job.first; o < job.last;) {
        const bool wide = o + best.outputs <= job.last;
        const int outputs = wide ? best.outputs : 1;
        // A line or more along the stream, or the next rows of the same block.
        const std::int64_t ahead =
            streams ? static_cast<std::int64_t>(1024 / sizeof(typename Weights::Stored)) : outputs * job.in;
        for (std::int64_t k = from; k < to; k += block) {
          add_terms<Weights>(job, row, rows, o, outputs, k, ahead, wide ? best.wide : best.single);
        }
        o += outputs;
      }
    }
  }
}

constexpr LinearKernel kernel = {LAMINA_SIMD_SET, most_rows, run<F32>, run<Bf16>, run<F16>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const LinearKernel> linear_kernels() {
  static constexpr std::array kernels = {LAMINA_SIMD_ALL(kernel)};
  return supported_kernels(std::span<const LinearKernel>(kernels));
}

}  // namespace lamina::cpu
#endif
