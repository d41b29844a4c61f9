// Activations to and from the blocks that the engines work on, written once and compiled for each instruction set.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/moves.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using ::lamina::cpu::HWY_NAMESPACE::load_floats;
using ::lamina::cpu::HWY_NAMESPACE::store_floats;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

/// 32 values of bf16 as they are, or as f32.
HWY_INLINE void put(const bfloat16* from, bfloat16* to) {
  const hn::ScalableTag<std::uint16_t> d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  const auto* const source = reinterpret_cast<const std::uint16_t*>(from);
#pragma GCC unroll 4
  for (int i = 0; i < step_channels; i += width) {
    hn::Store(hn::LoadU(d, source + i), d, reinterpret_cast<std::uint16_t*>(to) + i);
  }
}
HWY_INLINE void put(const bfloat16* from, float* to) {
#pragma GCC unroll 8
  for (int i = 0; i < step_channels; i += lanes) hn::Store(load_floats(Tag(), from + i), Tag(), to + i);
}

HWY_INLINE void put_masked(const bfloat16* from, const bfloat16* mask, bfloat16* to) {
  const hn::ScalableTag<std::uint16_t> d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  const auto* const source = reinterpret_cast<const std::uint16_t*>(from);
  const auto* const kept = reinterpret_cast<const std::uint16_t*>(mask);
#pragma GCC unroll 4
  for (int i = 0; i < step_channels; i += width) {
    hn::Store(hn::And(hn::LoadU(d, source + i), hn::Load(d, kept + i)), d, reinterpret_cast<std::uint16_t*>(to) + i);
  }
}

template <class T>
void spread(const Spread& s) {
  auto* block = static_cast<T*>(s.to);
  int c = 0;
  for (; c + step_channels <= s.channels; c += step_channels, block += s.block) {
    const bfloat16* from = s.from + c;
    T* to = block;
    for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, to += step_channels) put(from, to);
  }
  if (c == s.channels) return;
  // Whole vectors are read as long as they end before the last value of the last position.
  const auto rest = static_cast<std::size_t>(s.channels - c);
  const std::int64_t end = (s.count - 1) * s.pixel + static_cast<std::int64_t>(rest);
  const bfloat16* from = s.from + c;
  HWY_ALIGN bfloat16 mask[step_channels] = {}, some[step_channels];
  std::fill_n(mask, rest, bfloat16{0xffffu});
  for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, block += step_channels) {
    if (i * s.pixel + step_channels <= end) {
      put_masked(from, mask, some);
    } else {
      std::fill_n(some, step_channels, bfloat16());
      std::memcpy(some, from, rest * sizeof *some);
    }
    put(some, block);
  }
}

/// The first `count` elements, zeros behind them.
template <class T>
HWY_INLINE Vector load_some(const T* from, int count) {
  HWY_ALIGN T some[lanes] = {};
  std::memcpy(some, from, static_cast<std::size_t>(count) * sizeof(T));
  return load_floats(Tag(), some);
}
template <class T>
HWY_INLINE void store_some(Vector value, T* to, int count) {
  HWY_ALIGN T some[lanes];
  store_floats(Tag(), value, some);
  std::memcpy(to, some, static_cast<std::size_t>(count) * sizeof(T));
}

template <class T, bool adds, bool clamps>
void write_rows(const Write& w) {
  const Tag d;
  const Vector low = hn::Set(d, w.low), high = hn::Set(d, w.high);
  const auto finished = [&](Vector y) HWY_ATTR {
    if constexpr (clamps) {
      y = hn::IfThenElse(hn::Lt(y, low), low, y);  // not Max: NaN stays NaN
      y = hn::IfThenElse(hn::Gt(y, high), high, y);
    }
    return y;
  };
  const auto* addend = static_cast<const T*>(w.addend);
  auto* output = static_cast<T*>(w.output);
  const float* sums = w.sums;
  for (std::int64_t i = 0; i < w.count; ++i, sums += w.row, output += w.pixel) {
    int f = 0;
    for (; f + lanes <= w.filters; f += lanes) {
      Vector y = hn::Add(hn::LoadU(d, sums + f), hn::LoadU(d, w.bias + f));
      if constexpr (adds) y = hn::Add(y, load_floats(d, addend + f));
      store_floats(d, finished(y), output + f);
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
  if (w.addend != nullptr) return w.clamps ? write_rows<T, true, true>(w) : write_rows<T, true, false>(w);
  return w.clamps ? write_rows<T, false, true>(w) : write_rows<T, false, false>(w);
}

template <class From, class To>
void convert(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_floats(Tag(), load_floats(Tag(), from + i), to + i);
  if (i < count) store_some(load_some(from + i, static_cast<int>(count - i)), to + i, static_cast<int>(count - i));
}

constexpr Moves of_target = {.set = LAMINA_SIMD_SET,
                             .spread = spread<bfloat16>,
                             .spread_widened = spread<float>,
                             .write_bf16 = write<bfloat16>,
                             .write_f32 = write<float>,
                             .widen = convert<bfloat16, float>,
                             .narrow = convert<float, bfloat16>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const Moves> moves() { return LAMINA_SIMD_KERNELS(of_target); }

void finish(const Moves& moves, const RowEpilogue& epilogue, Write w, DType type, const void* residual, float* results,
            float* addends) {
  const bool narrow = type == DType::bf16;
  w.clamps = epilogue.clamps();
  w.low = epilogue.low, w.high = epilogue.high;
  if (epilogue.rest.empty()) {
    w.addend = epilogue.adds ? residual : nullptr;
    return narrow ? moves.write_bf16(w) : moves.write_f32(w);
  }
  const std::int64_t size = narrow ? 2 : 4, elements = w.count * w.row;
  std::fill_n(addends, elements, 0.0f);
  std::fill_n(results, elements, 0.0f);
  const auto* from = static_cast<const std::byte*>(residual);
  for (std::int64_t i = 0; residual != nullptr && i < w.count; ++i, from += w.pixel * size) {
    float* const to = addends + i * w.row;
    if (narrow) {
      moves.widen(reinterpret_cast<const bfloat16*>(from), w.filters, to);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(w.filters) * sizeof(float));
    }
  }
  Write block = w;
  block.output = results;
  block.addend = epilogue.adds ? addends : nullptr;
  block.pixel = w.row;
  moves.write_f32(block);
  apply_rest(epilogue, addends, results, elements);
  auto* to = static_cast<std::byte*>(w.output);
  for (std::int64_t i = 0; i < w.count; ++i, to += w.pixel * size) {
    const float* const result = results + i * w.row;
    if (narrow) {
      moves.narrow(result, w.filters, reinterpret_cast<bfloat16*>(to));
    } else {
      std::memcpy(to, result, static_cast<std::size_t>(w.filters) * sizeof(float));
    }
  }
}

}  // namespace lamina::cpu::bf16
#endif
