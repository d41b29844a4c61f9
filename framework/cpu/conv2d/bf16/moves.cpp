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
#include "lamina/cpu/conv2d/bf16/write-inl.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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

/// 32 factors, and what is multiplied by them.
template <class Store>
struct Factors {
  Vector factors[step_channels / lanes];

  explicit Factors(const bfloat16* from) {
#pragma GCC unroll 8
    for (int i = 0; i < step_channels; i += lanes) factors[i / lanes] = load_floats(Tag(), from + i);
  }
  HWY_INLINE void put_scaled(const bfloat16* from, bfloat16* to) const {
#pragma GCC unroll 4
    for (int i = 0; i < step_channels; i += 2 * lanes) {
      Store::two(hn::Mul(load_floats(Tag(), from + i), factors[i / lanes]),
                 hn::Mul(load_floats(Tag(), from + i + lanes), factors[i / lanes + 1]), to + i);
    }
  }
  HWY_INLINE void put_scaled(const bfloat16* from, float* to) const {
    HWY_ALIGN bfloat16 rounded[step_channels];
    put_scaled(from, rounded);
    put(rounded, to);
  }
};

template <class Store, class T>
void spread(const Spread& s) {
  auto* block = static_cast<T*>(s.to);
  int c = 0;
  for (; c + step_channels <= s.channels; c += step_channels, block += s.block) {
    const bfloat16* from = s.from + c;
    T* to = block;
    if (s.scale != nullptr) {
      const Factors<Store> factors(s.scale + c);
      for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, to += step_channels) factors.put_scaled(from, to);
    } else {
      for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, to += step_channels) put(from, to);
    }
  }
  if (c == s.channels) return;
  // Whole vectors are read as long as they end before the last value of the last position.
  const auto rest = static_cast<std::size_t>(s.channels - c);
  const std::int64_t end = (s.count - 1) * s.pixel + static_cast<std::int64_t>(rest);
  const bfloat16* from = s.from + c;
  HWY_ALIGN bfloat16 mask[step_channels] = {}, some[step_channels];
  std::fill_n(mask, rest, bfloat16{0xffffu});
  HWY_ALIGN bfloat16 scale[step_channels] = {};
  if (s.scale != nullptr) std::copy_n(s.scale + c, rest, scale);
  const Factors<Store> factors(scale);
  for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, block += step_channels) {
    if (i * s.pixel + step_channels <= end) {
      put_masked(from, mask, some);
    } else {
      std::fill_n(some, step_channels, bfloat16());
      std::memcpy(some, from, rest * sizeof *some);
    }
    s.scale != nullptr ? factors.put_scaled(some, block) : put(some, block);
  }
}

template <class From, class To>
void convert(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_floats(Tag(), load_floats(Tag(), from + i), to + i);
  if (i < count)
    Stores<To>::some(load_some(from + i, static_cast<int>(count - i)), to + i, static_cast<int>(count - i));
}

constexpr Moves of_target = {.set = LAMINA_SIMD_SET,
                             .spread = spread<Stores<bfloat16>, bfloat16>,
                             .spread_widened = spread<Stores<bfloat16>, float>,
                             .write_bf16 = write<Stores<bfloat16>, bfloat16>,
#if HWY_TARGET == HWY_AVX3
                             .write_rounding = write<InstructionStores, bfloat16>,
                             .spread_rounding = spread<InstructionStores, bfloat16>,
#endif
                             .write_f32 = write<Stores<float>, float>,
                             .widen = convert<bfloat16, float>,
                             .narrow = convert<float, bfloat16>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {

std::span<const Moves> moves() { return LAMINA_SIMD_KERNELS(of_target); }

const Moves& moves_of(InstructionSet set, bool rounding) {
  DeviceDescription device;
  device.instructions = set;
  const Moves& plain = best_kernel(moves(), device);
  static const Moves with_instruction = [] {
    Moves result = moves().front();
    result.write_bf16 = result.write_rounding;
    result.spread = result.spread_rounding;
    return result;
  }();
  const bool there = rounding && plain.write_rounding != nullptr && supports_avx512_bf16();
  return there && with_instruction.set == plain.set ? with_instruction : plain;
}

}  // namespace lamina::cpu::bf16
#endif
