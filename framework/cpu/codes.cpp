#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/codes.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lamina/cpu/codes.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

using Whole = hn::RebindToSigned<Tag>;

/// Fewer than a vector's.
template <class T>
HWY_INLINE void copy_some(const T* from, std::int64_t count, T* to) {
  for (int i = 0; i < lanes && i < count; ++i) to[i] = from[i];
}

template <class T>
HWY_INLINE Vector meaning(const T* from, Vector zero_point, Vector scale) {
  const hn::Rebind<T, Tag> narrow;
  const auto whole = hn::PromoteTo(Whole(), hn::LoadU(narrow, from));
  return hn::Mul(hn::Sub(hn::ConvertTo(Tag(), whole), zero_point), scale);
}

/// To the nearest, halves to even: what is between -2^31 and 2^31 is all that is asked for.
HWY_INLINE hn::Vec<Whole> nearest(Vector value) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<Whole>{_mm512_cvt_roundps_epi32(value.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<Whole>{_mm256_cvttps_epi32(hn::Round(value).raw)};
#else
  return hn::ConvertTo(Whole(), hn::Round(value));
#endif
}

/// NaN is low.
HWY_INLINE Vector between(Vector value, Vector low, Vector high) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Min(hn::Max(value, low), high);  // x86's gives the second operand if either is NaN
#else
  return hn::Min(hn::IfThenElse(hn::Gt(value, low), value, low), high);  // NaN is not greater
#endif
}

template <class T>
HWY_INLINE void put(hn::Vec<Whole> codes, T* to, int count) {
  const hn::Rebind<T, Tag> narrow;
  const auto some = hn::DemoteTo(narrow, codes);
  if (count == lanes) return hn::StoreU(some, narrow, to);
  HWY_ALIGN T all[lanes];
  hn::StoreU(some, narrow, all);
  copy_some(all, count, to);
}
HWY_INLINE void put(hn::Vec<Whole> values, std::int32_t* to, int count) {
  if (count == lanes) return hn::StoreU(values, Whole(), to);
  HWY_ALIGN std::int32_t all[lanes];
  hn::StoreU(values, Whole(), all);
  copy_some(all, count, to);
}
template <class T>
HWY_INLINE void put_floats(Vector values, T* to, int count) {
  using ::lamina::cpu::HWY_NAMESPACE::store_floats;
  if (count == lanes) return store_floats(Tag(), values, to);
  HWY_ALIGN T all[lanes];
  store_floats(Tag(), values, all);
  copy_some(all, count, to);
}

template <class T>
void read_codes(const T* from, const Quantization& codes, float* to, std::int64_t count) {
  const Tag d;
  const Vector zero = hn::Set(d, static_cast<float>(codes.zero_point)), scale = hn::Set(d, codes.scale);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(meaning(from + i, zero, scale), d, to + i);
  if (i == count) return;
  HWY_ALIGN T some[lanes] = {};
  HWY_ALIGN float all[lanes];
  copy_some(from + i, count - i, some);
  hn::Store(meaning(some, zero, scale), d, all);
  copy_some(all, count - i, to + i);
}

void read(DType type, const void* from, const Quantization& codes, float* to, std::int64_t count) {
  if (type == DType::u8) return read_codes(static_cast<const std::uint8_t*>(from), codes, to, count);
  read_codes(static_cast<const std::int8_t*>(from), codes, to, count);
}

/// How numbers become codes. Where the scale is of ordinary size they are not divided by it: the quotient by way of
/// 1 / scale in two words is one of the two floats beside the true one, and the remainder, which is exact, tells which
/// (Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is known in
/// advance", 2004).
struct Range {
  Vector low, high;  // less the zero point; by_inverse: of the numbers
  hn::Vec<Whole> zero_point;
  Vector scale, inverse, rest;
  bool by_inverse;

  Range(DType type, const Quantization& codes) {
    const Tag d;
    const auto least = static_cast<float>((type == DType::u8 ? 0 : -128) - codes.zero_point);
    const float divisor = codes.scale, one = 1 / divisor;
    by_inverse = HWY_TARGET != HWY_SCALAR && is_ordinary(codes);
    const float unit = by_inverse ? divisor : 1.0f;
    low = hn::Set(d, least * unit), high = hn::Set(d, (least + 255) * unit);
    zero_point = hn::Set(Whole(), codes.zero_point);
    scale = hn::Set(d, divisor), inverse = hn::Set(d, one);
    rest = hn::Set(d, static_cast<float>((1 - static_cast<double>(one) * static_cast<double>(divisor)) /
                                         static_cast<double>(divisor)));
  }

  /// Of an ordinary scale.
  HWY_INLINE hn::Vec<Whole> less_zero(Vector x) const {
    const Vector there = between(x, low, high);
    const Vector near = hn::MulAdd(there, inverse, hn::Mul(there, rest));
    return nearest(hn::MulAdd(hn::NegMulAdd(near, scale, there), inverse, near));
  }
  HWY_INLINE hn::Vec<Whole> operator()(Vector x) const {
    return hn::Add(by_inverse ? less_zero(x) : nearest(between(hn::Div(x, scale), low, high)), zero_point);
  }
};

template <class T>
void write_codes(DType type, const float* from, const Quantization& codes, T* to, std::int64_t count) {
  const Range range(type, codes);
  const auto one = [&](const float* some, T* target, int there)
                       HWY_ATTR { put(range(hn::LoadU(Tag(), some)), target, there); };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) one(from + i, to + i, lanes);
  if (i == count) return;
  HWY_ALIGN float some[lanes] = {};
  copy_some(from + i, count - i, some);
  one(some, to + i, static_cast<int>(count - i));
}

void write(DType type, const float* from, const Quantization& codes, void* to, std::int64_t count) {
  if (type == DType::u8) return write_codes(type, from, codes, static_cast<std::uint8_t*>(to), count);
  write_codes(type, from, codes, static_cast<std::int8_t*>(to), count);
}

/// put(i-th sums, channel, output, count) for all of them.
template <class T, class Finish>
HWY_INLINE void each(const Sums& s, const Finish& finish) {
  auto* const output = static_cast<T*>(s.output);
  for (int c = 0; c < s.channels; c += lanes) {
    const int there = std::min(lanes, s.channels - c);
    const std::int32_t* sums = s.sums + c;
    T* to = output + c;
    const auto offset = hn::LoadU(Whole(), s.offset + c);
    const Vector factor = hn::LoadU(Tag(), s.factor + c), bias = hn::LoadU(Tag(), s.bias + c);
    for (std::int64_t i = 0; i < s.count; ++i, sums += s.row, to += s.pixel) {
      finish(hn::Add(hn::LoadU(Whole(), sums), offset), factor, bias, to, there);
    }
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
using Halves = hn::Repartition<std::int16_t, Tag>;

/// The bytes of four vectors, in their order: those that T has that are nearest to the numbers and `zero_point` more.
template <class T>
HWY_INLINE hn::Vec<hn::Repartition<T, Tag>> narrowed(const hn::Vec<Whole> (&whole)[4], hn::Vec<Halves> zero_point) {
  constexpr int blocks = lanes / 4;  // of 128 bits, in which bytes stand as [block][vector][4]
  HWY_ALIGN std::int32_t order[lanes];
  for (int i = 0; i < lanes; ++i) order[i] = i % blocks * 4 + i / blocks;
  const auto first = hn::SaturatedAdd(hn::ReorderDemote2To(Halves(), whole[0], whole[1]), zero_point).raw;
  const auto second = hn::SaturatedAdd(hn::ReorderDemote2To(Halves(), whole[2], whole[3]), zero_point).raw;
#if HWY_TARGET == HWY_AVX3
  const hn::Vec<Whole> bytes = {std::is_signed_v<T> ? _mm512_packs_epi16(first, second)
                                                    : _mm512_packus_epi16(first, second)};
#else
  const hn::Vec<Whole> bytes = {std::is_signed_v<T> ? _mm256_packs_epi16(first, second)
                                                    : _mm256_packus_epi16(first, second)};
#endif
  return hn::BitCast(hn::Repartition<T, Tag>(), hn::TableLookupLanes(bytes, hn::SetTableIndices(Whole(), order)));
}

/// Of channels that V vectors hold, four vectors at a time. False, and nothing done, where a factor is more than a
/// half: then sums times it might be none of i32. A number that i16 has not is beyond the bounds with any zero point.
template <class T, int V>
HWY_INLINE bool finish_vectors(const SumsEnd& end, const Sums& s) {
  const Tag d;
  const hn::Repartition<T, Tag> bytes;
  const hn::CappedTag<T, V * lanes> some;
  constexpr int P = 4 / V;
  hn::Vec<Whole> offset[V];
  Vector factor[V];
  for (int v = 0; v < V; ++v) {
    offset[v] = hn::LoadU(Whole(), s.offset + v * lanes);
    factor[v] = hn::LoadU(d, s.factor + v * lanes);
    if (!hn::AllTrue(d, hn::Le(hn::Abs(factor[v]), hn::Set(d, 0.5f)))) return false;
  }
  const std::int32_t zero = end.quantization.zero_point;
  const auto bound = [&](float value)
                         HWY_ATTR { return hn::Set(bytes, static_cast<T>(static_cast<int>(value) + zero)); };
  const auto low = bound(end.low), high = bound(end.high);
  const auto zero_point = hn::Set(Halves(), static_cast<std::int16_t>(zero));
  HWY_ALIGN T codes[4 * lanes];
  T* to = static_cast<T*>(s.output);
  for (std::int64_t i = 0; i < s.count; i += P) {
    hn::Vec<Whole> whole[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const std::int32_t* const sums = s.sums + std::min(i + k / V, s.count - 1) * s.row + k % V * lanes;
      const auto sum = hn::Add(hn::LoadU(Whole(), sums), offset[k % V]);
      whole[k] = nearest(hn::Mul(hn::ConvertTo(d, sum), factor[k % V]));
    }
    hn::Store(hn::Min(hn::Max(narrowed<T>(whole, zero_point), low), high), bytes, codes);
#pragma GCC unroll 4
    for (int k = 0; k < P && i + k < s.count; ++k, to += s.pixel) {
      const T* const from = codes + k * V * lanes;
      if (s.channels == V * lanes) {
        hn::StoreU(hn::Load(some, from), some, to);
#if HWY_TARGET == HWY_AVX3
      } else {
        hn::BlendedStore(hn::Load(some, from), hn::FirstN(some, static_cast<std::size_t>(s.channels)), some, to);
#else
      } else {
        std::copy_n(from, s.channels, to);
#endif
      }
    }
  }
  return true;
}

template <class T>
bool finish_in_vectors(const SumsEnd& end, const Sums& s) {
  return s.channels > lanes ? finish_vectors<T, 2>(end, s) : finish_vectors<T, 1>(end, s);
}
#else
template <class T>
bool finish_in_vectors(const SumsEnd&, const Sums&) {
  return false;
}
#endif

template <class T>
void finish_codes(const SumsEnd& end, const Sums& s) {
  const Tag d;
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high);
  const auto zero = hn::Set(Whole(), end.quantization.zero_point);
  for (int c = 0; end.codes && c < s.channels; c += 2 * lanes) {
    Sums some = s;
    some.sums += c, some.offset += c, some.factor += c, some.bias += c;
    some.output = static_cast<T*>(s.output) + c;
    some.channels = std::min(2 * lanes, s.channels - c);
    if (finish_in_vectors<T>(end, some)) continue;
    each<T>(some, [&](auto sum, Vector factor, Vector, T* to, int there) HWY_ATTR {
      // The bounds are whole: to round first or last is the same.
      put(hn::Add(nearest(between(hn::Mul(hn::ConvertTo(d, sum), factor), low, high)), zero), to, there);
    });
  }
  if (end.codes) return;
  const Range range(end.type, end.quantization);
  each<T>(s, [&](auto sum, Vector factor, Vector bias, T* to, int there) HWY_ATTR {
    using ::lamina::cpu::HWY_NAMESPACE::clamped;
    const Vector y = clamped(hn::Add(hn::Mul(hn::ConvertTo(d, sum), factor), bias), low, high);
    put(range(y), to, there);
  });
}

template <class T>
void finish_floats(const SumsEnd& end, const Sums& s) {
  const Tag d;
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high);
  each<T>(s, [&](auto sum, Vector factor, Vector bias, T* to, int there) HWY_ATTR {
    using ::lamina::cpu::HWY_NAMESPACE::clamped;
    put_floats(clamped(hn::Add(hn::Mul(hn::ConvertTo(d, sum), factor), bias), low, high), to, there);
  });
}

void finish(const SumsEnd& end, const Sums& s) {
  switch (end.type) {
    case DType::u8: return finish_codes<std::uint8_t>(end, s);
    case DType::i8: return finish_codes<std::int8_t>(end, s);
    case DType::f32: return finish_floats<float>(end, s);
    case DType::bf16: return finish_floats<bfloat16>(end, s);
    default:
      return each<std::int32_t>(
          s, [](auto sum, Vector, Vector, std::int32_t* to, int there) HWY_ATTR { put(sum, to, there); });
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
/// What codes stand for. i8 is u8 with another upper bit, 128 more.
struct Meaning {
  std::uint8_t flip;
  Vector zero_point, scale;

  Meaning(DType type, const Quantization& codes)
      : flip(type == DType::i8 ? 128 : 0),
        zero_point(hn::Set(Tag(), static_cast<float>(codes.zero_point + flip))),
        scale(hn::Set(Tag(), codes.scale)) {}

  HWY_INLINE Vector operator()(const std::uint8_t* from) const {
    const hn::Rebind<std::uint8_t, Tag> narrow;
    const auto bytes = hn::Xor(hn::LoadU(narrow, from), hn::Set(narrow, flip));
    return hn::Mul(hn::Sub(hn::ConvertTo(Tag(), hn::PromoteTo(Whole(), bytes)), zero_point), scale);
  }
};

template <bool product, bool repeats>
HWY_INLINE void combine(const TwoCodes& t) {
  const Tag d;
  const hn::Repartition<std::uint8_t, Tag> bytes;
  constexpr std::int64_t step = 4 * lanes;
  const Meaning first(t.first_type, t.first_codes), second(t.second_type, t.second_codes);
  const Range range(t.type, t.codes);
  const Vector low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  const std::uint8_t flip = t.type == DType::i8 ? 128 : 0;
  const auto four = [&](const std::uint8_t* x, const std::uint8_t* y, const float* repeated,
                        std::uint8_t* to) HWY_ATTR {
    hn::Vec<Whole> whole[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Vector a = first(x + k * lanes), b = repeats ? hn::LoadU(d, repeated + k * lanes) : second(y + k * lanes);
      whole[k] = range.less_zero(hn::Min(hn::Max(product ? hn::Mul(a, b) : hn::Add(a, b), low), high));
    }
    hn::StoreU(
        hn::Xor(narrowed<std::uint8_t>(whole, hn::Set(Halves(), static_cast<std::int16_t>(t.codes.zero_point + flip))),
                hn::Set(bytes, flip)),
        bytes, to);
  };
  const auto *x = static_cast<const std::uint8_t*>(t.first), *y = static_cast<const std::uint8_t*>(t.second);
  auto* to = static_cast<std::uint8_t*>(t.output);
  std::int64_t at = t.phase, left = t.count;
  for (; left >= step; left -= step, x += step, to += step) {
    four(x, y, t.repeated + at, to);
    if (!repeats) y += step;
    for (at += repeats ? step : 0; at >= t.period && repeats;) at -= t.period;
  }
  if (left == 0) return;
  HWY_ALIGN std::uint8_t some[3][step] = {};
  std::memcpy(some[0], x, static_cast<std::size_t>(left));
  if (!repeats) std::memcpy(some[1], y, static_cast<std::size_t>(left));
  four(some[0], some[1], t.repeated + at, some[2]);
  std::memcpy(to, some[2], static_cast<std::size_t>(left));
}

void combine(const TwoCodes& t) {
  if (t.product) return t.repeated != nullptr ? combine<true, true>(t) : combine<true, false>(t);
  t.repeated != nullptr ? combine<false, true>(t) : combine<false, false>(t);
}
constexpr CodesKernel kernel = {LAMINA_SIMD_SET, read, write, finish, combine};
#else
constexpr CodesKernel kernel = {LAMINA_SIMD_SET, read, write, finish};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const CodesKernel> codes_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
