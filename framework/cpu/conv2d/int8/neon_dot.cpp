// ARMv8.2's dot product: SDOT adds the products of four fours of i8 to four sums in i32. 128 less than u8 is i8, and
// 128 times the weights is added later. A tile is up to four positions times four vectors of filters: of each position
// the 16 bytes of four fours are loaded at once, and an instruction takes one of them for all filters.

#include "lamina/cpu/conv2d/bf16/engine.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <array>
#include <cstring>

#if defined(__ARM_FEATURE_DOTPROD)
#define LAMINA_SDOT
#elif defined(__clang__)
#define LAMINA_SDOT __attribute__((target("dotprod")))
#else
#define LAMINA_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

namespace lamina::cpu::bf16 {
namespace {

constexpr int vectors = 4, filters = 4 * vectors, max_positions = 4;

/// Four fours, or one of them in the first place.
template <bool is_signed>
LAMINA_SDOT int8x16_t values(const std::uint16_t* from, bool whole) {
  std::uint8_t bytes[16] = {};
  if (!whole) std::memcpy(bytes, from, 4);
  const uint8x16_t loaded = vld1q_u8(whole ? reinterpret_cast<const std::uint8_t*>(from) : bytes);
  return vreinterpretq_s8_u8(is_signed ? loaded : veorq_u8(loaded, vdupq_n_u8(128)));
}

/// What number `four` of the values adds.
template <int four, int P>
LAMINA_SDOT inline __attribute__((always_inline)) const std::int8_t* add(int32x4_t (&sums)[P][vectors],
                                                                         const int8x16_t (&x)[P],
                                                                         const std::int8_t* weights) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    const int8x16_t w = vld1q_s8(weights + 16 * v);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) sums[p][v] = vdotq_laneq_s32(sums[p][v], w, x[p], four);
  }
  return weights + 4 * filters;
}

template <bool is_signed, int P>
LAMINA_SDOT void multiply_tile(const Tile& t) {
  int32x4_t sums[P][vectors];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[p][v] = vdupq_n_s32(0);
  }
  const auto* const input = static_cast<const std::uint16_t*>(t.input);
  const auto* w = static_cast<const std::int8_t*>(t.weights);
  const std::uint16_t* fetch = t.fetch;
  for (int step = 0; step < t.steps; ++step) {
    fetch = fetch_ahead(fetch, t.fetch_lines);
    const std::uint16_t* from = input + t.offsets[step];
    int left = step < t.whole_steps ? 16 : t.pairs;
    int8x16_t x[P];
    for (; left >= 4; left -= 4, from += 8) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) x[p] = values<is_signed>(from + p * t.pixel, true);
      w = add<0>(sums, x, w), w = add<1>(sums, x, w), w = add<2>(sums, x, w), w = add<3>(sums, x, w);
    }
    for (; left > 0; --left, from += 2) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) x[p] = values<is_signed>(from + p * t.pixel, false);
      w = add<0>(sums, x, w);
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) vst1q_f32(t.sums + p * t.sums_row + 4 * v, vreinterpretq_f32_s32(sums[p][v]));
  }
}

template <bool is_signed>
void multiply(const Tile& tile, int positions) {
  static constexpr std::array<void (*)(const Tile&), max_positions> tiles = {
      multiply_tile<is_signed, 1>, multiply_tile<is_signed, 2>, multiply_tile<is_signed, 3>,
      multiply_tile<is_signed, 4>};
  tiles[static_cast<std::size_t>(positions - 1)](tile);
}

constexpr Engine engine(DType operand, int shift, void (*multiply)(const Tile&, int)) {
  return {.unit = Unit::dot,
          .operand = operand,
          .set = InstructionSet::neon,
          .what = "SDOT",
          .filters = filters,
          .positions = max_positions,
          .shift = shift,
          .rate = 32,
          .multiply = multiply};
}

}  // namespace

std::span<const Engine> neon_dot_engines() {
  static constexpr Engine engines[] = {engine(DType::u8, -128, multiply<false>), engine(DType::i8, 0, multiply<true>)};
  return engines;
}

}  // namespace lamina::cpu::bf16
#else
std::span<const lamina::cpu::bf16::Engine> lamina::cpu::bf16::neon_dot_engines() { return {}; }
#endif
