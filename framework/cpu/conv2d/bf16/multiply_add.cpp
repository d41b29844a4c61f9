// Without instructions for bf16: both operands become f32, which is exact, and are multiplied and added as such. The
// input is widened when it is copied (moves.cpp), weights in registers. Written once and compiled for each instruction
// set by Highway.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/multiply_add.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <array>
#include <utility>

#include "lamina/cpu/conv2d/bf16/engine.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

// As many sums as leave room for a vector of weights each, one value and a mask.
#if HWY_TARGET == HWY_AVX3
constexpr int vectors = 2, most_positions = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int vectors = 4, most_positions = 6;
#else
constexpr int vectors = 2, most_positions = 6;
#endif
constexpr int filters = vectors * lanes;

template <int P>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  const Tag d;
  const hn::RebindToUnsigned<Tag> words;
  Vector sums[P][vectors];
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[p][v] = hn::Zero(d);
    }
  }
  const auto* const input = static_cast<const float*>(t.input);
  const std::uint16_t* w = t.weights;
  const std::uint16_t* fetch = t.fetch;
  const auto multiply = [&](const float* x, auto&& widened) HWY_ATTR {
    Vector weights[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      weights[v] = hn::BitCast(d, widened(hn::Load(words, reinterpret_cast<const std::uint32_t*>(w) +
                                                              static_cast<std::ptrdiff_t>(v) * lanes)));
    }
#pragma GCC unroll 14
    for (int p = 0; p < P; ++p) {
      const Vector value = hn::Set(d, x[p * step_channels]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[p][v] = hn::MulAdd(value, weights[v], sums[p][v]);
    }
  };
  for (int step = 0; step < t.steps; ++step) {
    fetch = fetch_ahead(fetch, t.fetch_lines);
    const float* x = input + t.offsets[step];
    const std::uint16_t* const end = w + (step < t.whole_steps ? 16 : t.pairs) * (2 * filters);
    for (; w != end; w += 2 * filters, x += 2) {
      multiply(x, [](auto pairs) HWY_ATTR { return hn::ShiftLeft<16>(pairs); });
      multiply(x + 1, [&](auto pairs) HWY_ATTR { return hn::And(pairs, hn::Set(words, 0xffff0000u)); });
    }
  }
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) hn::Store(sums[p][v], d, t.sums + p * t.sums_row + v * lanes);
  }
}

template <int... index>
constexpr std::array<void (*)(const Tile&), sizeof...(index)> tiles_of(std::integer_sequence<int, index...>) {
  return {multiply_tile<index + 1>...};
}

void multiply(const Tile& tile, int positions) {
  static constexpr auto tiles = tiles_of(std::make_integer_sequence<int, most_positions>());
  tiles[static_cast<std::size_t>(positions - 1)](tile);
}

constexpr Engine engine = {.unit = Unit::multiply_add,
                           .set = LAMINA_SIMD_SET,
                           .what = "f32 multiply-adds",
                           .filters = filters,
                           .positions = most_positions,
                           .widened = true,
                           .any_pixel = false,
                           .rate = 2.0 * lanes,
                           .cache = 1 << 20,
                           .begin = nullptr,
                           .end = nullptr,
                           .multiply = multiply};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const Engine> multiply_add_engines() {
  static constexpr std::array engines = {LAMINA_SIMD_ALL(engine)};
  return engines;
}

}  // namespace lamina::cpu::bf16
#endif
