// What kernels that Highway compiles for each instruction set share: vectors of floats of any length, from and to
// memory of f32 or bf16.

#if defined(LAMINA_CPU_VECTORS) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_VECTORS
#undef LAMINA_CPU_VECTORS
#else
#define LAMINA_CPU_VECTORS
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "lamina/tensor/dtype.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

template <class D>
constexpr int lanes_of(D) {
  return static_cast<int>(hn::MaxLanes(D()));
}

using Tag = hn::ScalableTag<float>;  // of the longest vectors
using Vector = hn::Vec<Tag>;
constexpr int lanes = lanes_of(Tag());

/// The lesser, or greater, of a bound and x, which may be NaN and then is what is given: x86's Min and Max give the
/// second operand if either is.
constexpr bool gives_second = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2;
template <class V>
HWY_INLINE V vector_min(V bound, V x) {
  return gives_second ? hn::Min(bound, x) : hn::IfThenElse(hn::Lt(bound, x), bound, x);
}
template <class V>
HWY_INLINE V vector_max(V bound, V x) {
  return gives_second ? hn::Max(bound, x) : hn::IfThenElse(hn::Lt(x, bound), bound, x);
}

/// Between low and high; NaN stays NaN.
template <class V>
HWY_INLINE V clamped(V y, V low, V high) {
  return vector_min(high, vector_max(low, y));
}

/// Calls body(d, i) so that vectors of `d` starting at the i's cover [0, count), some elements perhaps twice.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const auto cover = [&](auto d) {
    constexpr int length = lanes_of(d);
    for (std::int64_t i = 0; i + length < count; i += length) body(d, i);
    body(d, count - length);
  };
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 8> eight;
  const hn::CappedTag<float, 4> four;
  if (count >= lanes_of(full)) return cover(full);
  if (count >= lanes_of(eight)) return cover(eight);
  if (count >= lanes_of(four)) return cover(four);
  const hn::CappedTag<float, 1> one;
  for (std::int64_t i = 0; i < count; ++i) body(one, i);
}

/// The same, each element once: the last ones one by one.
template <class Body>
HWY_INLINE void each_once(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(Tag(), i);
  for (; i < count; ++i) body(hn::CappedTag<float, 1>(), i);
}

template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const bfloat16* from) {
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

template <class D>
HWY_INLINE void store_floats(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}
/// To nearest even; NaN stays one.
template <class D>
HWY_INLINE void store_floats(D, hn::Vec<D> value, bfloat16* to) {
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto bits = hn::BitCast(words, value);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::Add(bits, hn::Add(last, hn::Set(words, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
  const auto nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto upper = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(whole, upper)), halves, reinterpret_cast<std::uint16_t*>(to));
}

/// The first n of a vector's floats: memory has no more.
HWY_INLINE Vector load_part(const float* from, int n) {
  const Tag d;
  if (n == lanes) return hn::LoadU(d, from);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(n)), d, from);
#else
  HWY_ALIGN float values[lanes] = {};
  for (int i = 0; i < n; ++i) values[i] = from[i];
  return hn::Load(d, values);
#endif
}

HWY_INLINE void store_part(Vector y, int n, float* to) {
  const Tag d;
  if (n == lanes) return hn::StoreU(y, d, to);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(y, hn::FirstN(d, static_cast<std::size_t>(n)), d, to);
#else
  HWY_ALIGN float values[lanes];
  hn::Store(y, d, values);
  for (int i = 0; i < n; ++i) to[i] = values[i];
#endif
}

using Wide = hn::ScalableTag<double>;
/// Calls f(half, the half's doubles).
template <class F>
HWY_INLINE void each_half(Vector v, const F& f) {
#if HWY_TARGET == HWY_SCALAR
  f(0, hn::PromoteTo(Wide(), v));
#else
  const hn::Half<Tag> half;
  f(0, hn::PromoteTo(Wide(), hn::LowerHalf(half, v)));
  f(1, hn::PromoteTo(Wide(), hn::UpperHalf(half, v)));
#endif
}

LAMINA_SIMD_END;
#endif
