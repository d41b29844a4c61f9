// Multiply-adds of f32: of operands that are f32, or bf16 that become f32, which is exact, where no instruction
// multiplies them; then the input is widened when it is copied (moves.cpp), weights in registers. Written once and
// compiled for each instruction set by Highway.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/multiply_add.cpp"
#include "lamina/cpu/simd_targets.h"

#include <hwy/highway.h>

#include <array>
#include <type_traits>
#include <utility>

#include "lamina/cpu/conv2d/bf16/engine.h"

LAMINA_SIMD_BEGIN(lamina::cpu::bf16);

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

// As many sums as leave room for a vector of weights each, one value and a mask.
#if HWY_TARGET == HWY_AVX3
constexpr int vectors = 2, max_positions = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int vectors = 4, max_positions = 6;
#else
constexpr int vectors = 2, max_positions = 6;
#endif
constexpr int filters = vectors * lanes;
/// Of f32 the longest chain of multiply-adds, in steps: docs/inside/precision.md.
constexpr int chain_steps = 128 / step_channels;

/// The two vectors of weights of a pair of channels, which of bf16 lie in each other's halves.
HWY_INLINE Vector weights_of(const float* pair, std::ptrdiff_t row, int channel, int v) {
  return hn::LoadU(Tag(), pair + channel * row + v * lanes);
}
HWY_INLINE Vector weights_of(const std::uint16_t* pair, std::ptrdiff_t, int channel, int v) {
  const hn::RebindToUnsigned<Tag> words;
  const auto both =
      hn::Load(words, reinterpret_cast<const std::uint32_t*>(pair) + static_cast<std::ptrdiff_t>(v) * lanes);
  return hn::BitCast(Tag(), channel == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(words, 0xffff0000u)));
}

/// W: of weights.
template <class W, int P>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  constexpr bool chains = std::is_same_v<W, float>;
  const Tag d;
  Vector sums[P][vectors];
  const auto clear = [&]() HWY_ATTR {
#pragma GCC unroll 14
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[p][v] = hn::Zero(d);
    }
  };
  const auto store = [&](auto&& summed) HWY_ATTR {
#pragma GCC unroll 14
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        float* const to = t.sums + p * t.sums_row + v * lanes;
        hn::Store(summed(sums[p][v], to), d, to);
      }
    }
  };
  const auto as_it_is = [](Vector y, const float*) HWY_ATTR { return y; };
  const auto added = [&](Vector y, const float* to) HWY_ATTR { return hn::Add(hn::Load(d, to), y); };
  clear();
  const auto* const input = static_cast<const float*>(t.input);
  const auto* w = static_cast<const W*>(t.weights);
  const std::ptrdiff_t row = chains && t.weights_row != 0 ? t.weights_row : filters;
  const std::uint16_t* fetch = t.fetch;
  for (int step = 0; step < t.steps; ++step) {
    if (chains && step > 0 && step % chain_steps == 0) {
      step == chain_steps ? store(as_it_is) : store(added);
      clear();
    }
    fetch = fetch_ahead(fetch, t.fetch_lines);
    const float* x = input + t.offsets[step];
    const W* const end = w + (step < t.whole_steps ? 16 : t.pairs) * (2 * row);
    for (; w != end; w += 2 * row, x += 2) {
#pragma GCC unroll 2
      for (int channel = 0; channel < 2; ++channel) {
        Vector weights[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) weights[v] = weights_of(w, row, channel, v);
#pragma GCC unroll 14
        for (int p = 0; p < P; ++p) {
          const Vector value = hn::Set(d, x[p * step_channels + channel]);
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sums[p][v] = hn::MulAdd(value, weights[v], sums[p][v]);
        }
      }
    }
  }
  chains&& t.steps > chain_steps ? store(added) : store(as_it_is);
}

template <class W, int... index>
constexpr std::array<void (*)(const Tile&), sizeof...(index)> tiles_of(std::integer_sequence<int, index...>) {
  return {multiply_tile<W, index + 1>...};
}

template <class W>
void multiply(const Tile& tile, int positions) {
  static constexpr auto tiles = tiles_of<W>(std::make_integer_sequence<int, max_positions>());
  tiles[static_cast<std::size_t>(positions - 1)](tile);
}

template <class W>
constexpr Engine engine = {.unit = Unit::multiply_add,
                           .operand = std::is_same_v<W, float> ? DType::f32 : DType::bf16,
                           .set = LAMINA_SIMD_SET,
                           .what = "f32 multiply-adds",
                           .filters = filters,
                           .positions = max_positions,
                           .widened = true,
                           .any_pixel = false,
                           .rate = 2.0 * lanes,
                           .multiply = multiply<W>};
constexpr Engine of_f32 = engine<float>, of_bf16 = engine<std::uint16_t>;

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const Engine> multiply_add_engines() {
  static constexpr std::array engines = {LAMINA_SIMD_ALL(of_bf16) LAMINA_SIMD_ALL(of_f32)};
  return engines;
}

}  // namespace lamina::cpu::bf16
#endif
