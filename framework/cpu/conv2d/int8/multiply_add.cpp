// Products of u8 or i8 and weights of i8 where no instruction sums four of them: by AVX2 as pairs of i16, VPMADDWD,
// which no sum of two leaves; and in plain C++, which compilers vectorise.

#include <array>
#include <cstring>

#include "lamina/cpu/conv2d/bf16/engine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LAMINA_AVX2 __attribute__((target("avx2")))
#endif

namespace lamina::cpu::bf16 {
namespace {

constexpr int filters = 16, max_positions = 4;

#if defined(__x86_64__)
/// Bytes 0 and 2, and bytes 1 and 3, of each four as two numbers of 16 bits.
struct Pairs {
  __m256i even, odd;
};
template <bool is_signed>
LAMINA_AVX2 Pairs widened(__m256i fours) {
  if (is_signed) return {_mm256_srai_epi16(_mm256_slli_epi16(fours, 8), 8), _mm256_srai_epi16(fours, 8)};
  return {_mm256_and_si256(fours, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(fours, 8)};
}

template <bool is_signed, int P>
LAMINA_AVX2 void multiply_tile(const Tile& t) {
  __m256i sums[P][2];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sums[p][0] = sums[p][1] = _mm256_setzero_si256();
  const auto* const input = static_cast<const std::uint16_t*>(t.input);
  const auto* w = static_cast<const std::uint16_t*>(t.weights);
  const std::uint16_t* fetch = t.fetch;
  for (int step = 0; step < t.steps; ++step) {
    fetch = fetch_ahead(fetch, t.fetch_lines);
    const std::uint16_t* x = input + t.offsets[step];
    const std::uint16_t* const end = w + (step < t.whole_steps ? 16 : t.pairs) * (2 * filters);
    for (; w != end; w += 2 * filters, x += 2) {
      const auto* const weights = reinterpret_cast<const __m256i*>(w);
      const Pairs first = widened<true>(_mm256_load_si256(weights)),
                  second = widened<true>(_mm256_load_si256(weights + 1));
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        int four = 0;
        std::memcpy(&four, x + p * t.pixel, sizeof four);
        const Pairs values = widened<is_signed>(_mm256_set1_epi32(four));
        const auto product = [&](const Pairs& of) LAMINA_AVX2 {
          return _mm256_add_epi32(_mm256_madd_epi16(values.even, of.even), _mm256_madd_epi16(values.odd, of.odd));
        };
        sums[p][0] = _mm256_add_epi32(sums[p][0], product(first));
        sums[p][1] = _mm256_add_epi32(sums[p][1], product(second));
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(t.sums + p * t.sums_row + v * 8), sums[p][v]);
    }
  }
}

template <bool is_signed>
void multiply(const Tile& tile, int positions) {
  static constexpr std::array<void (*)(const Tile&), 4> tiles = {
      multiply_tile<is_signed, 1>, multiply_tile<is_signed, 2>, multiply_tile<is_signed, 3>,
      multiply_tile<is_signed, 4>};
  tiles[static_cast<std::size_t>(positions - 1)](tile);
}
#endif

template <class T>
void multiply_plain(const Tile& t, int positions) {
  for (int p = 0; p < positions; ++p) {
    std::int32_t sums[filters] = {};
    const auto* w = static_cast<const std::int8_t*>(t.weights);
    for (int step = 0; step < t.steps; ++step) {
      const auto* x =
          reinterpret_cast<const T*>(static_cast<const std::uint16_t*>(t.input) + t.offsets[step] + p * t.pixel);
      const int fours = step < t.whole_steps ? 16 : t.pairs;
      for (int i = 0; i < fours; ++i, x += 4, w += 4 * filters) {
        for (int f = 0; f < filters; ++f) {
          sums[f] += x[0] * w[4 * f] + x[1] * w[4 * f + 1] + x[2] * w[4 * f + 2] + x[3] * w[4 * f + 3];
        }
      }
    }
    std::memcpy(t.sums + p * t.sums_row, sums, sizeof sums);
  }
}

constexpr Engine engine(DType operand, InstructionSet set, void (*multiply)(const Tile&, int)) {
  return {.unit = Unit::multiply_add,
          .operand = operand,
          .set = set,
          .what = "sums of i32",
          .filters = filters,
          .positions = max_positions,
          .rate = set == InstructionSet::scalar ? 8.0 : 32.0,
          .multiply = multiply};
}

}  // namespace

std::span<const Engine> int8_multiply_add_engines() {
  static constexpr Engine engines[] = {
#if defined(__x86_64__)
    engine(DType::u8, InstructionSet::avx2, multiply<false>),
    engine(DType::i8, InstructionSet::avx2, multiply<true>),
#endif
    engine(DType::u8, InstructionSet::scalar, multiply_plain<std::uint8_t>),
    engine(DType::i8, InstructionSet::scalar, multiply_plain<std::int8_t>)
  };
  return engines;
}

}  // namespace lamina::cpu::bf16
