// AVX512-BF16: VDPBF16PS adds the products of 16 pairs of bf16 to 16 sums in f32. AVX512-VNNI: VPDPBUSD adds those of
// 16 fours of u8 and i8 to 16 sums in i32; 128 more than i8 is u8, and 128 times the weights is taken off later. A tile
// is up to 14 positions times two vectors of filters: 28 sums, two vectors of weights and one pair of values, which all
// filters share, fill the 32 registers, as in the fp32 kernel (channels_last_kernel.cpp).

#include "lamina/cpu/conv2d/bf16/engine.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#define LAMINA_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx512vnni")))
#endif

namespace lamina::cpu::bf16 {

#if defined(__x86_64__)
namespace {

constexpr int filters = 32, max_positions = 14;

struct OfBf16 {
  using Sums = __m512;
  static LAMINA_DOT Sums zero() { return _mm512_setzero_ps(); }
  static LAMINA_DOT __m512i values(int pair) { return _mm512_set1_epi32(pair); }
  static LAMINA_DOT Sums add(Sums sums, __m512i values, __m512i weights) {
    return _mm512_dpbf16_ps(sums, (__m512bh)weights, (__m512bh)values);
  }
  static LAMINA_DOT void store(float* to, Sums sums) { _mm512_store_ps(to, sums); }
};

template <bool is_signed>
struct OfBytes {
  using Sums = __m512i;
  static LAMINA_DOT Sums zero() { return _mm512_setzero_si512(); }
  static LAMINA_DOT Sums load(const std::int32_t* from) { return _mm512_loadu_si512(from); }
  static LAMINA_DOT __m512i values(int four) {
    const __m512i bytes = _mm512_set1_epi32(four);
    return is_signed ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
  }
  static LAMINA_DOT Sums add(Sums sums, __m512i values, __m512i weights) {
    return _mm512_dpbusd_epi32(sums, values, weights);
  }
  static LAMINA_DOT void store(float* to, Sums sums) { _mm512_store_si512(to, sums); }

  /// What becomes of a tile's sums, offsets among them, as codes.cpp does it: the least and the most by packing two
  /// positions times two vectors.
  template <bool adds, int P>
  static LAMINA_DOT inline __attribute__((always_inline)) void finish(const Tile& t, const Sums (&sums)[P][2]) {
    constexpr __mmask16 all = 0xffff;
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const cpu::Sums& s = *t.codes;
    const SumsEnd& end = *t.end;
    const bool bytes = (adds ? s.two->type : end.type) == DType::u8;
    const auto zero = static_cast<std::int16_t>((adds ? s.two->codes : end.quantization).zero_point);
    const SumLine line = adds ? *s.two->line : SumLine{.low = end.low, .high = end.high};
    const __m512i zero_point = _mm512_set1_epi16(zero);
    const __m512i least = _mm512_set1_epi8(static_cast<char>(static_cast<int>(line.low) + zero));
    const __m512i most = _mm512_set1_epi8(static_cast<char>(static_cast<int>(line.high) + zero));
    const __m128i flip = _mm_set1_epi8(adds && s.two->second_type == DType::i8 ? -128 : 0);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const auto mask = static_cast<__mmask32>((std::uint64_t{1} << s.channels) - 1);
    auto* to = static_cast<std::uint8_t*>(s.output);
    const std::int64_t pixel =
        s.pixel;  // codes may lie anywhere: what is read of `s` after some are stored is read again
    const float* const factor = s.factor;
    const auto* added = static_cast<const std::uint8_t*>(s.added);
#pragma GCC unroll 14
    for (int p = 0; p < P; p += 2, to += 2 * pixel, added += 2 * pixel) {
      __m512i whole[2];
#pragma GCC unroll 2
      for (int q = 0; q < 2; ++q) {
        const int at = p + q < P ? p + q : p;
        __m512i steps[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          __m512 y = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(all, sums[at][v]), _mm512_loadu_ps(factor + 16 * v));
          if constexpr (adds) {
            const auto some = static_cast<__mmask16>(mask >> (16 * v));
            const __m128i other = _mm_xor_si128(_mm_maskz_loadu_epi8(some, added + (at - p) * pixel + 16 * v), flip);
            y = _mm512_maskz_min_ps(all, _mm512_maskz_max_ps(all, y, _mm512_set1_ps(end.low)),
                                    _mm512_set1_ps(end.high));
            const __m512 more = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(all, _mm512_maskz_cvtepu8_epi32(all, other)),
                                                _mm512_set1_ps(line.other), _mm512_set1_ps(line.rest));
            y = _mm512_fmadd_ps(_mm512_maskz_roundscale_ps(all, y, nearest), _mm512_set1_ps(line.own), more);
          }
          steps[v] = _mm512_maskz_cvt_roundps_epi32(all, y, nearest);
        }
        whole[q] = _mm512_adds_epi16(_mm512_packs_epi32(steps[0], steps[1]), zero_point);
      }
      const __m512i codes = bytes
                                ? _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(whole[0], whole[1]), least), most)
                                : _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(whole[0], whole[1]), least), most);
      const __m512i sorted = _mm512_maskz_permutexvar_epi32(all, order, codes);
      _mm256_mask_storeu_epi8(to, mask, _mm512_maskz_extracti64x4_epi64(0xf, sorted, 0));
      if (p + 1 < P) _mm256_mask_storeu_epi8(to + pixel, mask, _mm512_maskz_extracti64x4_epi64(0xf, sorted, 1));
    }
  }
};

/// `fixed`: positions are step_channels apart, constants in the instructions. Otherwise an address for every third of
/// them, the two between reached by one and two times the distance.
template <class Of, int P, bool fixed>
LAMINA_DOT void multiply_tile(const Tile& t) {
  typename Of::Sums sums[P][2], first[2] = {Of::zero(), Of::zero()};
  if constexpr (!std::is_same_v<Of, OfBf16>) {
    if (t.codes != nullptr) first[0] = Of::load(t.codes->offset), first[1] = Of::load(t.codes->offset + 16);
  }
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      sums[p][v] = first[v];
    }
  }
  const auto* const input = static_cast<const std::uint16_t*>(t.input);
  const auto* w = static_cast<const std::uint16_t*>(t.weights);
  const std::uint16_t* fetch = t.fetch;
  const std::int64_t pixel = fixed ? step_channels : t.pixel;
  for (int step = 0; step < t.steps; ++step) {
    fetch = fetch_ahead(fetch, t.fetch_lines);
    const std::uint16_t* x[(P + 2) / 3];
#pragma GCC unroll 5
    for (int i = 0; i < (P + 2) / 3; ++i) x[i] = input + t.offsets[step] + 3 * i * pixel;
    const std::uint16_t* const end = w + (step < t.whole_steps ? 16 : t.pairs) * (2 * filters);
    for (; w != end; w += 2 * filters) {
      __m512i weights[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) weights[v] = _mm512_load_si512(w + v * 32);
#pragma GCC unroll 14
      for (int p = 0; p < P; ++p) {
        int pair = 0;
        std::memcpy(&pair, fixed ? x[0] + p * step_channels : x[p / 3] + p % 3 * pixel, sizeof pair);
        const __m512i values = Of::values(pair);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          sums[p][v] = Of::add(sums[p][v], values, weights[v]);
        }
      }
#pragma GCC unroll 5
      for (int i = 0; i < (fixed ? 1 : (P + 2) / 3); ++i) x[i] += 2;
    }
  }
  if constexpr (!std::is_same_v<Of, OfBf16>) {
    if (t.codes != nullptr && t.codes->two != nullptr) return Of::template finish<true>(t, sums);
    if (t.codes != nullptr) return Of::template finish<false>(t, sums);
  }
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) Of::store(t.sums + p * t.sums_row + v * 16, sums[p][v]);
  }
}

template <class Of, bool fixed, int... index>
constexpr std::array<void (*)(const Tile&), sizeof...(index)> tiles_of(std::integer_sequence<int, index...>) {
  return {multiply_tile<Of, index + 1, fixed>...};
}

template <class Of>
void multiply(const Tile& tile, int positions) {
  using Counts = std::make_integer_sequence<int, max_positions>;
  static constexpr auto fixed = tiles_of<Of, true>(Counts()), any = tiles_of<Of, false>(Counts());
  (tile.pixel == step_channels ? fixed : any)[static_cast<std::size_t>(positions - 1)](tile);
}

template <class Of>
constexpr Engine engine(DType operand, std::string_view what) {
  return {.unit = Unit::dot,
          .operand = operand,
          .set = InstructionSet::avx512,
          .what = what,
          .filters = filters,
          .positions = max_positions,
          .finishes = operand != DType::bf16,
          .shift = operand == DType::i8 ? 128 : 0,
          .rate = 64,
          .multiply = multiply<Of>};
}

}  // namespace

std::span<const Engine> dot_engines() {
  static constexpr Engine engines[] = {engine<OfBf16>(DType::bf16, "AVX512-BF16"),
                                       engine<OfBytes<false>>(DType::u8, "AVX512-VNNI"),
                                       engine<OfBytes<true>>(DType::i8, "AVX512-VNNI")};
  return engines;
}
#else
std::span<const Engine> dot_engines() { return {}; }
#endif

}  // namespace lamina::cpu::bf16
