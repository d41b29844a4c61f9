// The multiply-adds of one tile of a depthwise convolution, written once and compiled for each instruction set.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/depthwise_tile.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/bf16/depthwise_tile.h"
#include "lamina/cpu/conv2d/bf16/write-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Tag>;
using WordVector = hn::Vec<Words>;

// Maps are 7 wide, or a multiple of that, most of all. Sums, the taps of a row and one position fill the registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int P = 7;
#else
constexpr int P = 4;
#endif

struct Pair {
  Vector even, odd;
  // Written out, for g++ does not compile implicit ones for the target.
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(Vector of_even, Vector of_odd) : even(of_even), odd(of_odd) {}
};

/// Pairs of channels; of `whole` blocks all, else the first `channels`, zeros behind them.
#if HWY_TARGET == HWY_SCALAR
template <bool whole>
HWY_INLINE WordVector load_words(const bfloat16* from, int) {
  return hn::Set(Words(), from[0].bits | (whole ? std::uint32_t{from[1].bits} << 16 : 0u));
}
template <bool whole>
HWY_INLINE void store_words(WordVector value, bfloat16* to, int) {
  const std::uint32_t words = hn::GetLane(value);
  to[0].bits = static_cast<std::uint16_t>(words);
  if constexpr (whole) to[1].bits = static_cast<std::uint16_t>(words >> 16);
}
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE __mmask32 first_channels(int channels) { return static_cast<__mmask32>((1u << channels) - 1); }
template <bool whole>
HWY_INLINE WordVector load_words(const bfloat16* from, int channels) {
  return WordVector{whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(first_channels(channels), from)};
}
template <bool whole>
HWY_INLINE void store_words(WordVector value, bfloat16* to, int channels) {
  whole ? _mm512_storeu_si512(to, value.raw) : _mm512_mask_storeu_epi16(to, first_channels(channels), value.raw);
}
#else
template <bool whole>
HWY_INLINE WordVector load_words(const bfloat16* from, int channels) {
  const hn::ScalableTag<std::uint16_t> halves;
  if constexpr (whole) return hn::BitCast(Words(), hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
  HWY_ALIGN std::uint16_t some[2 * lanes] = {};
  std::memcpy(some, from, static_cast<std::size_t>(channels) * sizeof *some);
  return hn::BitCast(Words(), hn::Load(halves, some));
}
template <bool whole>
HWY_INLINE void store_words(WordVector value, bfloat16* to, int channels) {
  const hn::ScalableTag<std::uint16_t> halves;
  if constexpr (whole) return hn::StoreU(hn::BitCast(halves, value), halves, reinterpret_cast<std::uint16_t*>(to));
  HWY_ALIGN bfloat16 some[2 * lanes];
  hn::Store(hn::BitCast(halves, value), halves, reinterpret_cast<std::uint16_t*>(some));
  std::copy_n(some, channels, to);
}
#endif

template <bool whole>
HWY_INLINE Pair load_pair(const bfloat16* from, int channels) {
  const WordVector words = load_words<whole>(from, channels);
  return {hn::BitCast(Tag(), hn::ShiftLeft<16>(words)),
          hn::BitCast(Tag(), hn::And(words, hn::Set(Words(), 0xffff0000u)))};
}

/// To nearest even by integers; NaN stays one.
struct Rounding {
  static HWY_INLINE WordVector rounded(Vector value) {
    const Words d;
    const WordVector bits = hn::BitCast(d, value);
    const WordVector last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    const WordVector up = hn::Add(bits, hn::Add(last, hn::Set(d, 0x7fffu)));
    return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), hn::Or(bits, hn::Set(d, 0x400000u)), up);
  }
  static HWY_INLINE WordVector narrowed(Pair y) {
    const WordVector upper = hn::And(rounded(y.odd), hn::Set(Words(), 0xffff0000u));
    return hn::Or(hn::ShiftRight<16>(rounded(y.even)), upper);
  }
};

#if HWY_TARGET == HWY_AVX3
/// The same by AVX512-BF16, in assembly, since the target has it not; subnormal results become 0.
struct InstructionRounding {
  static HWY_INLINE WordVector narrowed(Pair y) {
    alignas(64) static constexpr std::uint16_t places[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i narrow;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(narrow) : "v"(y.even.raw), "v"(y.odd.raw));
    return WordVector{_mm512_permutexvar_epi16(_mm512_load_si512(places), narrow)};
  }
};
#endif

/// All taps; K columns of them and S positions from output to output, or, if 0, as many as the tile says. Neighbouring
/// outputs share what they read.
template <bool whole, int K, int S>
HWY_INLINE void add_taps(const DepthwiseTile& t, Pair (&sums)[P]) {
  const Tag d;
  const float* weights = t.weights;
  // Of the tile's columns, from its first one on, those that there are.
  const auto begin = static_cast<int>(-std::min<std::int64_t>(t.left, 0));
  const auto end = static_cast<int>(std::min<std::int64_t>(t.columns - t.left, 1 << 30));
  for (int row = 0; row < t.kernel_rows; ++row) {
    const bfloat16* const x = t.rows[row];
    std::int64_t place = t.left * t.pixel;
    if constexpr (K > 0) {
      Pair taps[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k, weights += 2 * lanes) taps[k] = {hn::Load(d, weights), hn::Load(d, weights + lanes)};
#pragma GCC unroll 32
      for (int column = 0; column < (P - 1) * S + K; ++column, place += t.pixel) {
        if (column < begin || column >= end) continue;
        const Pair value = load_pair<whole>(x + place, t.channels);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) {
          const int p = (column - k) / S;
          if (column < k || (column - k) % S != 0 || p >= P) continue;
          sums[p].even = hn::MulAdd(taps[k].even, value.even, sums[p].even);
          sums[p].odd = hn::MulAdd(taps[k].odd, value.odd, sums[p].odd);
        }
      }
    } else {
      for (int k = 0; k < t.kernel_columns; ++k, weights += 2 * lanes) {
        const Pair tap = {hn::Load(d, weights), hn::Load(d, weights + lanes)};
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          const int column = k * t.dilation + p * t.stride;
          if (column < begin || column >= end) continue;
          const Pair value = load_pair<whole>(x + place + column * t.pixel, t.channels);
          sums[p].even = hn::MulAdd(tap.even, value.even, sums[p].even);
          sums[p].odd = hn::MulAdd(tap.odd, value.odd, sums[p].odd);
        }
      }
    }
  }
}

template <class Round, bool whole, Pointwise function>
HWY_INLINE void store_results(const DepthwiseTile& t, const Pair (&sums)[P]) {
  const Tag d;
  const Vector low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  bfloat16* to = t.output;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p, to += t.output_pixel) {
    if (p >= t.count) return;
    store_words<whole>(Round::narrowed({applied<bfloat16, function>(clamped(sums[p].even, low, high)),
                                        applied<bfloat16, function>(clamped(sums[p].odd, low, high))}),
                       to, t.channels);
  }
}

template <class Round, bool whole, int K, int S>
HWY_NOINLINE void run_tile(const DepthwiseTile& t) {
  const Tag d;
  const Pair bias = {hn::Load(d, t.bias), hn::Load(d, t.bias + lanes)};
  Pair sums[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sums[p] = bias;
  add_taps<whole, K, S>(t, sums);
  if (t.sums != nullptr) {
    HWY_ALIGN float numbers[2 * lanes];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      hn::Store(sums[p].even, d, numbers);
      hn::Store(sums[p].odd, d, numbers + lanes);
      float* const to = t.sums + p * 2 * lanes;
      for (int i = 0; i < 2 * lanes; ++i) to[i] = numbers[i % 2 * lanes + i / 2];
    }
    return;
  }
  switch (t.function) {
    case Pointwise::silu: return store_results<Round, whole, Pointwise::silu>(t, sums);
    case Pointwise::gelu: return store_results<Round, whole, Pointwise::gelu>(t, sums);
    case Pointwise::hard_swish: return store_results<Round, whole, Pointwise::hard_swish>(t, sums);
    default: return store_results<Round, whole, Pointwise::identity>(t, sums);
  }
}

template <class Round, bool whole>
void run_some(const DepthwiseTile& t) {
  if (t.dilation == 1 && t.stride == 1) {
    if (t.kernel_columns == 3) return run_tile<Round, whole, 3, 1>(t);
    if (t.kernel_columns == 5) return run_tile<Round, whole, 5, 1>(t);
    if (t.kernel_columns == 7) return run_tile<Round, whole, 7, 1>(t);
  } else if (t.dilation == 1 && t.stride == 2) {
    if (t.kernel_columns == 3) return run_tile<Round, whole, 3, 2>(t);
    if (t.kernel_columns == 5) return run_tile<Round, whole, 5, 2>(t);
  }
  run_tile<Round, whole, 0, 0>(t);
}

template <class Round>
void run(const DepthwiseTile& t) {
  t.channels == 2 * lanes ? run_some<Round, true>(t) : run_some<Round, false>(t);
}

constexpr DepthwiseKernel kernel = {.set = LAMINA_SIMD_SET,
                                    .channels = 2 * lanes,
                                    .positions = P,
                                    .run = run<Rounding>,
#if HWY_TARGET == HWY_AVX3
                                    .run_rounding = run<InstructionRounding>
#else
                                    .run_rounding = nullptr
#endif
};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const DepthwiseKernel> depthwise_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu::bf16
#endif
