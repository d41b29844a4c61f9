// Blocks of channels of f32, bf16, u8 or i8 to vectors of floats, and of floats back, for each instruction set that
// tile.cpp is compiled for.

#if defined(LAMINA_CPU_CONV2D_LANES_BLOCKS) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_CONV2D_LANES_BLOCKS
#undef LAMINA_CPU_CONV2D_LANES_BLOCKS
#else
#define LAMINA_CPU_CONV2D_LANES_BLOCKS
#endif

#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/bf16/write-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu::bf16);

using Words = hn::RebindToUnsigned<Tag>;
using WordVector = hn::Vec<Words>;

/// Vectors of floats that a block of T fills: of bf16 the even and the odd channels.
template <class T>
constexpr int vectors = sizeof(T) == 2 ? 2 : 1;
template <class T>
constexpr int block_channels = vectors<T>* lanes;

// Maps are 7 wide, or a multiple of that, most of all. Sums, the taps of a row and one position fill the registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
template <class T>
constexpr int positions = 7;
#else
template <class T>
constexpr int positions = sizeof(T) == 2 ? 4 : 7;
#endif
template <class T>
using Sums = Vector[positions<T>][vectors<T>];

/// A block of channels; if it is not `whole`, the first `channels`, zeros behind them.
template <bool whole>
HWY_INLINE void load(const float* from, int channels, Vector (&value)[1]) {
  value[0] = whole ? hn::LoadU(Tag(), from) : load_some(from, channels);
}
template <class, bool whole>
HWY_INLINE void store(const Vector (&y)[1], float* to, int channels) {
  whole ? Stores<float>::one(y[0], to) : Stores<float>::some(y[0], to, channels);
}

/// Whole numbers: sums of their products are exact as long as they stay below 2^24.
template <bool whole, class T>
HWY_INLINE void load_codes(const T* from, int channels, Vector (&value)[1]) {
  const hn::Rebind<T, Tag> narrow;
  const hn::RebindToSigned<Tag> wide;
  HWY_ALIGN T some[lanes] = {};
  if constexpr (!whole) {
    for (int i = 0; i < lanes && i < channels; ++i) some[i] = from[i];
  }
  value[0] = hn::ConvertTo(Tag(), hn::PromoteTo(wide, hn::LoadU(narrow, whole ? from : some)));
}
template <bool whole>
HWY_INLINE void load(const std::uint8_t* from, int channels, Vector (&value)[1]) {
  load_codes<whole>(from, channels, value);
}
template <bool whole>
HWY_INLINE void load(const std::int8_t* from, int channels, Vector (&value)[1]) {
  load_codes<whole>(from, channels, value);
}

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
HWY_INLINE void load(const bfloat16* from, int channels, Vector (&value)[2]) {
  const WordVector words = load_words<whole>(from, channels);
  value[0] = hn::BitCast(Tag(), hn::ShiftLeft<16>(words));
  value[1] = hn::BitCast(Tag(), hn::And(words, hn::Set(Words(), 0xffff0000u)));
}
template <class Round, bool whole>
HWY_INLINE void store(const Vector (&y)[2], bfloat16* to, int channels) {
  store_words<whole>(Round::narrowed(y[0], y[1]), to, channels);
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
  static HWY_INLINE WordVector narrowed(Vector even, Vector odd) {
    const WordVector upper = hn::And(rounded(odd), hn::Set(Words(), 0xffff0000u));
    return hn::Or(hn::ShiftRight<16>(rounded(even)), upper);
  }
};

#if HWY_TARGET == HWY_AVX3
/// The same by AVX512-BF16, in assembly, since the target has it not; subnormal results become 0.
struct InstructionRounding {
  static HWY_INLINE WordVector narrowed(Vector even, Vector odd) {
    alignas(64) static constexpr std::uint16_t places[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i narrow;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(narrow) : "v"(even.raw), "v"(odd.raw));
    return WordVector{_mm512_permutexvar_epi16(_mm512_load_si512(places), narrow)};
  }
};
#endif

LAMINA_SIMD_END;
#endif
