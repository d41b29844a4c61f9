// Activations to and from the blocks that the engines work on, written once and compiled for each instruction set.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/moves.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <array>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/conv2d/bf16/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

/// 32 values of bf16 as they are, or as f32.
HWY_INLINE void put(const std::uint16_t* from, std::uint16_t* to) {
  const hn::ScalableTag<std::uint16_t> d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
#pragma GCC unroll 4
  for (int i = 0; i < step_channels; i += width) hn::Store(hn::LoadU(d, from + i), d, to + i);
}
HWY_INLINE void put(const std::uint16_t* from, float* to) {
#pragma GCC unroll 8
  for (int i = 0; i < step_channels; i += lanes) hn::Store(load(from + i), Tag(), to + i);
}

template <class T>
void spread(const Spread& s) {
  auto* block = static_cast<T*>(s.to);
  int c = 0;
  for (; c + step_channels <= s.channels; c += step_channels, block += s.block) {
    const std::uint16_t* from = s.from + c;
    T* to = block;
    for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, to += step_channels) put(from, to);
  }
  if (c == s.channels) return;
  const auto rest = static_cast<std::size_t>(s.channels - c);
  const std::uint16_t* from = s.from + c;
  for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, block += step_channels) {
    HWY_ALIGN std::uint16_t some[step_channels] = {};
    std::memcpy(some, from, rest * sizeof *some);
    put(some, block);
  }
}

template <class T, bool adds>
void write_rows(const Write& w) {
  const Tag d;
  const Vector low = hn::Set(d, w.low), high = hn::Set(d, w.high);
  const auto finished = [&](Vector y) HWY_ATTR {
    y = hn::IfThenElse(hn::Lt(y, low), low, y);  // not Max: NaN stays NaN
    return hn::IfThenElse(hn::Gt(y, high), high, y);
  };
  const auto* addend = static_cast<const T*>(w.addend);
  auto* output = static_cast<T*>(w.output);
  const float* sums = w.sums;
  for (std::int64_t i = 0; i < w.count; ++i, sums += w.row, output += w.pixel) {
    int f = 0;
    for (; f + lanes <= w.filters; f += lanes) {
      Vector y = hn::Add(hn::LoadU(d, sums + f), hn::LoadU(d, w.bias + f));
      if constexpr (adds) y = hn::Add(y, load(addend + f));
      store(finished(y), output + f);
    }
    if (const int rest = w.filters - f; rest > 0) {
      Vector y = hn::Add(hn::LoadU(d, sums + f), hn::LoadU(d, w.bias + f));
      if constexpr (adds) y = hn::Add(y, load_some(addend + f, rest));
      store_some(finished(y), output + f, rest);
    }
    if constexpr (adds) addend += w.pixel;
  }
}

template <class T>
void write(const Write& w) {
  w.addend != nullptr ? write_rows<T, true>(w) : write_rows<T, false>(w);
}

template <class From, class To>
void convert(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(load(from + i), to + i);
  if (i < count) store_some(load_some(from + i, static_cast<int>(count - i)), to + i, static_cast<int>(count - i));
}

constexpr Moves of_target = {.set = LAMINA_SIMD_SET,
                             .spread = spread<std::uint16_t>,
                             .spread_widened = spread<float>,
                             .write_bf16 = write<std::uint16_t>,
                             .write_f32 = write<float>,
                             .widen = convert<std::uint16_t, float>,
                             .narrow = convert<float, std::uint16_t>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const Moves> moves() {
  static constexpr std::array all = {LAMINA_SIMD_ALL(of_target)};
  return supported_kernels(std::span<const Moves>(all));
}

}  // namespace lamina::cpu::bf16
#endif
