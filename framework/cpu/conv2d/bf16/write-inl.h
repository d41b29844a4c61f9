// Sums on their way to the output, for each instruction set that moves.cpp is compiled for.

#if defined(LAMINA_CPU_CONV2D_BF16_WRITE) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_CONV2D_BF16_WRITE
#undef LAMINA_CPU_CONV2D_BF16_WRITE
#else
#define LAMINA_CPU_CONV2D_BF16_WRITE
#endif

#include <cstring>

#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu::bf16);

using ::lamina::cpu::HWY_NAMESPACE::clamped;
using ::lamina::cpu::HWY_NAMESPACE::load_floats;
using ::lamina::cpu::HWY_NAMESPACE::rough_gelu;
using ::lamina::cpu::HWY_NAMESPACE::rough_silu;
using ::lamina::cpu::HWY_NAMESPACE::store_floats;
using ::lamina::cpu::HWY_NAMESPACE::vector_gelu;
using ::lamina::cpu::HWY_NAMESPACE::vector_sigmoid;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

/// The first `count` elements, zeros behind them.
template <class T>
HWY_INLINE Vector load_some(const T* from, int count) {
  HWY_ALIGN T some[lanes] = {};
  std::memcpy(some, from, static_cast<std::size_t>(count) * sizeof(T));
  return load_floats(Tag(), some);
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
HWY_INLINE Vector load_some(const float* from, int count) {
  return hn::MaskedLoad(hn::FirstN(Tag(), static_cast<std::size_t>(count)), Tag(), from);
}
#endif
#if HWY_TARGET == HWY_AVX3
HWY_INLINE __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1u << count) - 1); }
HWY_INLINE Vector load_some(const bfloat16* from, int count) {
  const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(count), from));
  return Vector{_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
}
#endif

/// Vectors to memory; bf16 rounded to nearest even by integers.
template <class T>
struct Stores {
  static HWY_INLINE void one(Vector y, T* to) { store_floats(Tag(), y, to); }
  static HWY_INLINE void two(Vector y, Vector z, T* to) {
    one(y, to);
    one(z, to + lanes);
  }
  static HWY_INLINE void some(Vector y, T* to, int count) {
    HWY_ALIGN T all[lanes];
    one(y, all);
    std::memcpy(to, all, static_cast<std::size_t>(count) * sizeof(T));
  }
};

#if HWY_TARGET == HWY_AVX3
/// The same by AVX512-BF16's instructions, whatever MXCSR says; they take subnormal numbers for 0. In assembly, since
/// the target that all of this is compiled for does not have them.
struct InstructionStores {
  static HWY_INLINE __m256i narrowed(Vector y) {
    __m256i narrow;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(narrow) : "v"(y.raw));
    return narrow;
  }
  static HWY_INLINE void one(Vector y, bfloat16* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrowed(y));
  }
  static HWY_INLINE void some(Vector y, bfloat16* to, int count) {
    _mm256_mask_storeu_epi16(to, first_lanes(count), narrowed(y));
  }
  static HWY_INLINE void two(Vector y, Vector z, bfloat16* to) {
    __m512i narrow;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(narrow) : "v"(y.raw), "v"(z.raw));
    _mm512_storeu_si512(to, narrow);
  }
};
#endif

/// As exact as T is.
template <class T, Pointwise function>
HWY_INLINE Vector applied(Vector x) {
  const Tag d;
  constexpr bool rough = sizeof(T) == 2;
  if constexpr (function == Pointwise::silu) return rough ? rough_silu(d, x) : hn::Mul(x, vector_sigmoid(d, x));
  if constexpr (function == Pointwise::gelu) return rough ? rough_gelu(d, x) : vector_gelu(d, x);
  if constexpr (function == Pointwise::hard_swish) {
    const Vector part = hn::MulAdd(x, hn::Set(d, 1.0f / 6.0f), hn::Set(d, 0.5f));
    return hn::Mul(x, clamped(part, hn::Zero(d), hn::Set(d, 1.0f)));
  }
  return x;
}

/// Two vectors of filters at a time, whose biases stay in registers, for all positions.
template <class Store, class T, bool adds, bool clamps, Pointwise function>
void write_rows(const Write& w) {
  const Tag d;
  const Vector low = hn::Set(d, w.low), high = hn::Set(d, w.high);
  const auto finished = [&](const float* sums, Vector bias, auto&& addend) HWY_ATTR {
    Vector y = hn::Add(hn::LoadU(d, sums), bias);
    if constexpr (adds) y = hn::Add(y, addend());
    if constexpr (clamps) y = clamped(y, low, high);
    return applied<T, function>(y);
  };
  const auto* const addends = static_cast<const T*>(w.addend);
  auto* const outputs = static_cast<T*>(w.output);
  int f = 0;
  for (; f + 2 * lanes <= w.filters; f += 2 * lanes) {
    const Vector bias = hn::LoadU(d, w.bias + f), bias2 = hn::LoadU(d, w.bias + f + lanes);
    const float* sums = w.sums + f;
    const T* addend = adds ? addends + f : nullptr;
    T* output = outputs + f;
    for (std::int64_t i = 0; i < w.count; ++i, sums += w.row, output += w.pixel, addend += adds ? w.pixel : 0) {
      const Vector y = finished(sums, bias, [&]() HWY_ATTR { return load_floats(d, addend); });
      const Vector z = finished(sums + lanes, bias2, [&]() HWY_ATTR { return load_floats(d, addend + lanes); });
      Store::two(y, z, output);
    }
  }
  for (; f < w.filters; f += lanes) {
    const int count = w.filters - f < lanes ? w.filters - f : lanes;
    const Vector bias = hn::LoadU(d, w.bias + f);
    for (std::int64_t i = 0; i < w.count; ++i) {
      const std::int64_t place = i * w.pixel + f;
      const Vector y = finished(w.sums + i * w.row + f, bias, [&]() HWY_ATTR {
        return count == lanes ? load_floats(d, addends + place) : load_some(addends + place, count);
      });
      if (count == lanes) {
        Store::one(y, outputs + place);
      } else {
        Store::some(y, outputs + place, count);
      }
    }
  }
}

template <class Store, class T>
void write(const Write& w) {
  const auto run = [&]<bool adds>() {
    switch (w.function) {
      case Pointwise::silu: return write_rows<Store, T, adds, false, Pointwise::silu>(w);
      case Pointwise::gelu: return write_rows<Store, T, adds, false, Pointwise::gelu>(w);
      case Pointwise::hard_swish: return write_rows<Store, T, adds, false, Pointwise::hard_swish>(w);
      default:
        return w.clamps ? write_rows<Store, T, adds, true, Pointwise::identity>(w)
                        : write_rows<Store, T, adds, false, Pointwise::identity>(w);
    }
  };
  w.addend != nullptr ? run.template operator()<true>() : run.template operator()<false>();
}

LAMINA_SIMD_END;
#endif
