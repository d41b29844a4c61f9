// Activations to and from the blocks that the engines work on, written once and compiled for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/moves.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/conv2d/bf16/write-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu::bf16);

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

#if HWY_TARGET != HWY_AVX3
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

#endif

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
    const bfloat16* from = static_cast<const bfloat16*>(s.from) + c;
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
  const bfloat16* from = static_cast<const bfloat16*>(s.from) + c;
  HWY_ALIGN bfloat16 some[step_channels];
#if HWY_TARGET == HWY_AVX3
  const auto kept = static_cast<__mmask32>((std::uint64_t{1} << rest) - 1);
#else
  HWY_ALIGN bfloat16 mask[step_channels] = {};
  std::fill_n(mask, rest, bfloat16{0xffffu});
  const std::int64_t end = (s.count - 1) * s.pixel + static_cast<std::int64_t>(rest);
#endif
  HWY_ALIGN bfloat16 scale[step_channels] = {};
  if (s.scale != nullptr) std::copy_n(s.scale + c, rest, scale);
  const Factors<Store> factors(scale);
  for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, block += step_channels) {
#if HWY_TARGET == HWY_AVX3
    _mm512_store_si512(some, _mm512_maskz_loadu_epi16(kept, from));
#else
    if (i * s.pixel + step_channels <= end) {
      put_masked(from, mask, some);
    } else {
      std::fill_n(some, step_channels, bfloat16());
      std::memcpy(some, from, rest * sizeof *some);
    }
#endif
    s.scale != nullptr ? factors.put_scaled(some, block) : put(some, block);
  }
}

void spread_f32(const Spread& s) {
  auto* block = static_cast<float*>(s.to);
  for (int c = 0; c < s.channels; c += step_channels, block += s.block) {
    const float* from = static_cast<const float*>(s.from) + c;
    const int there = std::min(step_channels, s.channels - c);
    float* to = block;
    for (std::int64_t i = 0; i < s.count; ++i, from += s.pixel, to += step_channels) {
      if (there == step_channels) {
#pragma GCC unroll 8
        for (int k = 0; k < step_channels; k += lanes) hn::Store(hn::LoadU(Tag(), from + k), Tag(), to + k);
      } else {
        std::copy_n(from, there, to);
        std::fill(to + there, to + step_channels, 0.0f);
      }
    }
  }
}

template <class T>
void join(const Runs& r) {
  auto* to = static_cast<T*>(r.to);
  HWY_ALIGN bfloat16 values[step_channels] = {};
  for (std::int64_t i = 0, place = 0; i < r.count; ++i, place += r.pixel, to += step_channels) {
    bfloat16* run = values;
    for (const bfloat16* const from : r.from) {
      for (std::int64_t k = 0; k < r.length; ++k) run[k] = from[place + k];
      run += r.length;
    }
    put(values, to);
  }
}

#if HWY_TARGET == HWY_AVX3
/// Each run is loaded to its place among the channels by a mask; one store writes them.
void join_masked(const Runs& r) {
  __mmask32 masks[step_channels];
  const std::uint16_t* from[step_channels];
  const std::size_t runs = r.from.size();
  for (std::size_t k = 0; k < runs; ++k) {
    const auto first = static_cast<std::int64_t>(k) * r.length;
    masks[k] = static_cast<__mmask32>(((std::uint64_t{1} << r.length) - 1) << first);
    from[k] = reinterpret_cast<const std::uint16_t*>(r.from[k]) - first;
  }
  auto* to = static_cast<std::uint16_t*>(r.to);
  for (std::int64_t i = 0, place = 0; i < r.count; ++i, place += r.pixel, to += step_channels) {
    __m512i values = _mm512_maskz_loadu_epi16(masks[0], from[0] + place);
    for (std::size_t k = 1; k < runs; ++k) values = _mm512_mask_loadu_epi16(values, masks[k], from[k] + place);
    _mm512_store_si512(to, values);
  }
}
#endif

template <class T>
void interleave(const T* from, std::int64_t plane, std::int64_t channels, std::int64_t count, T* to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3) {
    using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
    const hn::ScalableTag<Bits> d;
    constexpr std::int64_t width = hn::MaxLanes(d);
    const auto* const source = reinterpret_cast<const Bits*>(from);
    for (; i + width <= count; i += width) {
      hn::StoreInterleaved3(hn::LoadU(d, source + i), hn::LoadU(d, source + plane + i),
                            hn::LoadU(d, source + 2 * plane + i), d, reinterpret_cast<Bits*>(to) + 3 * i);
    }
  }
#endif
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = i; k < count; ++k) to[k * channels + c] = from[c * plane + k];
  }
}

bool finite(const bfloat16* from, std::int64_t count) {
  const hn::ScalableTag<std::uint16_t> d;
  constexpr std::int64_t width = hn::MaxLanes(d);
  const auto size = hn::Set(d, std::uint16_t{0x7fff});
  auto largest = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + width <= count; i += width) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, reinterpret_cast<const std::uint16_t*>(from) + i), size));
  }
  bool result = hn::AllTrue(d, hn::Lt(largest, hn::Set(d, std::uint16_t{0x7f80})));
  for (; i < count; ++i) result &= (from[i].bits & 0x7fff) < 0x7f80;
  return result;
}

template <class Store, class From, class To>
void convert(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) Store::one(load_floats(Tag(), from + i), to + i);
  if (i < count) Store::some(load_some(from + i, static_cast<int>(count - i)), to + i, static_cast<int>(count - i));
}

constexpr Moves of_target = {.set = LAMINA_SIMD_SET,
                             .spread = spread<Stores<bfloat16>, bfloat16>,
                             .spread_widened = spread<Stores<bfloat16>, float>,
                             .spread_f32 = spread_f32,
                             .write_bf16 = write<Stores<bfloat16>, bfloat16>,
#if HWY_TARGET == HWY_AVX3
                             .write_rounding = write<InstructionStores, bfloat16>,
                             .spread_rounding = spread<InstructionStores, bfloat16>,
                             .narrow_rounding = convert<InstructionStores, float, bfloat16>,
#endif
                             .write_f32 = write<Stores<float>, float>,
#if HWY_TARGET == HWY_AVX3
                             .join = join_masked,
#else
                             .join = join<bfloat16>,
#endif
                             .join_widened = join<float>,
                             .interleave = interleave<bfloat16>,
                             .interleave_f32 = interleave<float>,
                             .finite = finite,
                             .widen = convert<Stores<float>, bfloat16, float>,
                             .narrow = convert<Stores<bfloat16>, float, bfloat16>};

LAMINA_SIMD_END;

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
    result.narrow = result.narrow_rounding;
    return result;
  }();
  const bool there = rounding && plain.write_rounding != nullptr && supports_avx512_bf16();
  return there && with_instruction.set == plain.set ? with_instruction : plain;
}

}  // namespace lamina::cpu::bf16
#endif
