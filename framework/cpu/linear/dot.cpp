// Fully connected layers as dot products, written once and compiled for each instruction set by Highway.
//
// A tile is R rows of inputs times O rows of weights: R * O vectors of sums. Chains are of at most 32 terms a lane;
// what they give is added up lane by lane, and across the lanes at the end. Weights are read where they lie, row by
// row, once for all rows of a job. For few rows that is all the time there is: up to eight rows of weights are read
// side by side, since one stream of cache lines reaches half of the memory's rate (docs/inside/cpu.md). A block of O
// rows of weights stays in the L1 cache while tiles of inputs pass it.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/linear/dot.cpp"
#include "lamina/cpu/simd_targets.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lamina/base/math.h"
#include "lamina/cpu/linear/dot.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

constexpr std::int64_t chain = 32;             // terms, of each lane
constexpr std::int64_t block = chain * lanes;  // terms, of all

constexpr int tile_rows = 4;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
/// Rows of weights in a tile of so many rows of inputs: sums, and the smaller of the two, fill 32 registers.
constexpr int outputs_for(int rows) { return rows <= 2 ? 8 : 6; }
#else
constexpr int outputs_for(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : 3; }
#endif

/// Weights as they are stored, and how a vector of them becomes floats.
struct F32 {
  using Stored = float;
  static Vector load(const Stored* w) { return hn::LoadU(Tag(), w); }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static Vector load(const Stored* w) { return load_floats(Tag(), reinterpret_cast<const bfloat16*>(w)); }
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
  const float* input;                      // [count / lanes, R, lanes], aligned
  const typename Weights::Stored* weight;  // [O, count], rows weight_pitch apart
  std::int64_t weight_pitch;
  std::int64_t count;  // at most `block`
  float* totals;       // [R, O, lanes], aligned: what to add to
  // Weights that will be wanted next, fetched meanwhile: [next_rows, count], rows weight_pitch apart.
  const typename Weights::Stored* next;
  int next_rows;
};

/// sum[r][o] += the products of one vector of terms.
template <class Weights, int R, int O>
HWY_INLINE void multiply(const float* input, const typename Weights::Stored* weight, std::int64_t weight_pitch,
                         Vector (&sum)[R][O]) {
  const Tag d;
  if constexpr (O <= R) {
    Vector w[O];
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) w[o] = Weights::load(weight + o * weight_pitch);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vector x = hn::Load(d, input + r * lanes);
#pragma GCC unroll 8
      for (int o = 0; o < O; ++o) sum[r][o] = hn::MulAdd(x, w[o], sum[r][o]);
    }
  } else {
    Vector x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = hn::Load(d, input + r * lanes);
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
  const float* input = t.input;
  const Stored* weight = t.weight;
  const std::int64_t pitch = t.weight_pitch;
  Vector sum[R][O];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[r][o] = hn::Zero(d);
  }
  const Stored* next = t.next;
  for (std::int64_t i = t.count / lanes; i > 0; --i, input += R * lanes, weight += lanes, next += lanes) {
    const Stored* fetched = next;
    for (int o = 0; o < t.next_rows; ++o, fetched += pitch) hwy::Prefetch(fetched);
    multiply<Weights, R, O>(input, weight, pitch, sum);
  }
  if (const auto rest = static_cast<std::size_t>(t.count % lanes); rest > 0) {
    Stored weights[O * lanes] = {};  // filled up with zeros, as the inputs are
    for (int o = 0; o < O; ++o) std::memcpy(weights + o * lanes, weight + o * pitch, rest * sizeof(Stored));
    multiply<Weights, R, O>(input, weights, lanes, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) {
      float* const total = t.totals + (r * O + o) * lanes;
      hn::Store(hn::Add(hn::Load(d, total), sum[r][o]), d, total);
    }
  }
}

void pack(const float* input, std::int64_t rows, std::int64_t in, float* packed) {
  for (std::int64_t k = 0; k < in; k += lanes) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(lanes, in - k));
    for (std::int64_t r = 0; r < rows; ++r, packed += lanes) {
      std::memcpy(packed, input + r * in + k, count * sizeof(float));
      std::fill(packed + count, packed + lanes, 0.0f);
    }
  }
}

template <class Weights, int O, int... index>
constexpr auto tiles_of(std::integer_sequence<int, index...>) {
  return std::array{tile<Weights, index + 1, O>...};
}

/// Outputs [first, first + O) of all rows of a job, R at a time.
template <class Weights, int R, int O>
void outputs_of(const LinearJob& job, std::int64_t first) {
  static constexpr auto tiles = tiles_of<Weights, O>(std::make_integer_sequence<int, R>());
  static_assert(LinearJob::max_rows % R == 0 || R == 3, "3 rows are a whole job");
  HWY_ALIGN float totals[LinearJob::max_rows / R][R * O * lanes];
  const Tag d;
  const std::int64_t packed_row = detail::round_up<std::int64_t>(job.in, lanes);
  std::fill(totals[0], totals[0] + job.rows * O * lanes, 0.0f);
  const auto* const weight = static_cast<const typename Weights::Stored*>(job.weight) + first * job.in;
  const auto passes = static_cast<int>(detail::ceil_div<std::int64_t>(job.rows, R));
  for (std::int64_t k = 0; k < job.in; k += block) {
    // Every pass over this block fetches its share of the next one, or else memory would rest during all but the first.
    // A single pass streams by itself; fetching besides costs it 5 %.
    const auto* const next = k + block < job.in ? weight + k + block : weight + O * job.in;
    for (std::int64_t row = 0; row < job.rows; row += R) {
      const std::int64_t rows = std::min<std::int64_t>(R, job.rows - row);
      const auto pass = static_cast<int>(row / R);
      const int fetched = O * pass / passes;
      tiles[static_cast<std::size_t>(rows - 1)]({.input = job.input + row * packed_row + k * rows,
                                                 .weight = weight + k,
                                                 .weight_pitch = job.in,
                                                 .count = std::min(block, job.in - k),
                                                 .totals = totals[pass],
                                                 .next = next + fetched * job.in,
                                                 .next_rows = passes > 1 ? O * (pass + 1) / passes - fetched : 0});
    }
  }
  const float* total = totals[0];
  for (std::int64_t row = 0; row < job.rows; ++row) {
    float* const out = job.output + row * job.out + first;
    for (int o = 0; o < O; ++o, total += lanes) {
      const float bias = job.bias != nullptr ? job.bias[first + o] : 0.0f;
      const float y = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, total))) + bias;
      out[o] = job.relu && y < 0.0f ? 0.0f : y;
    }
  }
}

template <class Weights, int R>
void run_rows(const LinearJob& job) {
  constexpr int outputs = outputs_for(R);
  std::int64_t o = job.first;
  for (; o + outputs <= job.last; o += outputs) outputs_of<Weights, R, outputs>(job, o);
  for (; o < job.last; ++o) outputs_of<Weights, R, 1>(job, o);
}

template <class Weights>
void run(const LinearJob& job) {
  switch (job.rows) {
    case 1: return run_rows<Weights, 1>(job);
    case 2: return run_rows<Weights, 2>(job);
    case 3: return run_rows<Weights, 3>(job);
    default: return run_rows<Weights, tile_rows>(job);
  }
}

constexpr LinearKernel kernel = {LAMINA_SIMD_SET, lanes, tile_rows, pack, run<F32>, run<Bf16>, run<F16>};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const LinearKernel> linear_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
