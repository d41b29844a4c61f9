#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/codes.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>

#include "lamina/cpu/codes.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

using Whole = hn::RebindToSigned<Tag>;

/// Fewer than a vector's.
template <class T>
HWY_INLINE void copy_some(const T* from, std::int64_t count, T* to) {
  for (int i = 0; i < lanes && i < count; ++i) to[i] = from[i];
}

template <class Bytes>
HWY_INLINE Vector meaning(Bytes codes, Vector zero_point, Vector scale) {
  return hn::Mul(hn::Sub(hn::ConvertTo(Tag(), hn::PromoteTo(Whole(), codes)), zero_point), scale);
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
  const hn::Rebind<T, Tag> narrow;
  const Vector zero = hn::Set(d, static_cast<float>(codes.zero_point)), scale = hn::Set(d, codes.scale);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(meaning(hn::LoadU(narrow, from + i), zero, scale), d, to + i);
  if (i == count) return;
  HWY_ALIGN T some[lanes] = {};
  HWY_ALIGN float all[lanes];
  copy_some(from + i, count - i, some);
  hn::Store(meaning(hn::LoadU(narrow, some), zero, scale), d, all);
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

  Range(DType type, const Quantization& codes, float lowest = -HUGE_VALF, float highest = HUGE_VALF) {
    const Tag d;
    const auto least = static_cast<float>((type == DType::u8 ? 0 : -128) - codes.zero_point);
    const float divisor = codes.scale, one = 1 / divisor;
    by_inverse = HWY_NATIVE_FMA && divisor > 1e-15f && divisor < 1e15f;
    const float unit = by_inverse ? divisor : 1.0f;
    // What the numbers are bounded by, their quotients are too: rounding changes no order.
    const float other = by_inverse ? 1.0f : divisor;
    const auto bound = [&](float number) { return std::clamp(number / other, least * unit, (least + 255) * unit); };
    low = hn::Set(d, bound(lowest)), high = hn::Set(d, bound(highest));
    zero_point = hn::Set(Whole(), codes.zero_point);
    scale = hn::Set(d, divisor), inverse = hn::Set(d, one);
    rest = hn::Set(d, static_cast<float>((1 - static_cast<double>(one) * static_cast<double>(divisor)) /
                                         static_cast<double>(divisor)));
  }

  HWY_INLINE hn::Vec<Whole> operator()(Vector x) const {
    if (!by_inverse) return hn::Add(nearest(between(hn::Div(x, scale), low, high)), zero_point);
    const Vector there = between(x, low, high);
    const Vector near = hn::MulAdd(there, inverse, hn::Mul(there, rest));
    return hn::Add(nearest(hn::MulAdd(hn::NegMulAdd(near, scale, there), inverse, near)), zero_point);
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

template <class T>
void finish_codes(const SumsEnd& end, const Sums& s) {
  const Tag d;
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high);
  const auto zero = hn::Set(Whole(), end.quantization.zero_point);
  if (end.codes) {
    return each<T>(s, [&](auto sum, Vector factor, Vector, T* to, int there) HWY_ATTR {
      put(hn::Add(nearest(between(hn::Mul(hn::ConvertTo(d, sum), factor), low, high)), zero), to, there);
    });
  }
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
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high), scale = hn::Set(d, end.quantization.scale);
  if (end.read) {  // to 0 added, so that none is -0
    return each<T>(s, [&](auto sum, Vector factor, Vector, T* to, int there) HWY_ATTR {
      const Vector code = hn::Round(between(hn::Mul(hn::ConvertTo(d, sum), factor), low, high));
      put_floats(hn::Mul(hn::Add(code, hn::Zero(d)), scale), to, there);
    });
  }
  each<T>(s, [&](auto sum, Vector factor, Vector bias, T* to, int there) HWY_ATTR {
    using ::lamina::cpu::HWY_NAMESPACE::clamped;
    put_floats(clamped(hn::Add(hn::Mul(hn::ConvertTo(d, sum), factor), bias), low, high), to, there);
  });
}

/// i8 is u8 with another upper bit, 128 more.
std::uint8_t flip_of(DType type) { return type == DType::i8 ? 128 : 0; }

/// A vector's codes.
struct Meaning {
  std::uint8_t flip;
  Vector zero_point, scale;

  Meaning(DType type, const Quantization& codes)
      : flip(flip_of(type)),
        zero_point(hn::Set(Tag(), static_cast<float>(codes.zero_point + flip))),
        scale(hn::Set(Tag(), codes.scale)) {}

  HWY_INLINE Vector byte(const std::uint8_t* from) const {
    const hn::Rebind<std::uint8_t, Tag> narrow;
    return hn::ConvertTo(Tag(), hn::PromoteTo(Whole(), hn::Xor(hn::LoadU(narrow, from), hn::Set(narrow, flip))));
  }
  HWY_INLINE Vector operator()(const std::uint8_t* from) const {
    return hn::Mul(hn::Sub(byte(from), zero_point), scale);
  }
};

/// The end's codes and others, added and rounded again.
template <class T>
void finish_two(const SumsEnd& end, const Sums& s) {
  const Tag d;
  const TwoCodes& t = *s.two;
  const bool by_line = HWY_NATIVE_FMA && t.line;
  const SumLine line = t.line.value_or(SumLine());
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high), scale = hn::Set(d, t.first_codes.scale);
  const Vector a = hn::Set(d, line.own), b = hn::Set(d, line.other), c = hn::Set(d, line.rest);
  const Vector least = hn::Set(d, line.low), most = hn::Set(d, line.high);
  const auto zero = hn::Set(Whole(), t.codes.zero_point);
  const Meaning second(t.second_type, t.second_codes);
  const Range range(t.type, t.codes, t.low, t.high);
  const auto* const added = static_cast<const std::uint8_t*>(s.added);
  each<T>(s, [&](auto sum, Vector factor, Vector, T* to, int there) HWY_ATTR {
    const std::uint8_t* other = added + (to - static_cast<const T*>(s.output));
    HWY_ALIGN std::uint8_t some[lanes] = {};
    if (there < lanes) copy_some(other, there, some), other = some;
    const Vector own = hn::Round(between(hn::Mul(hn::ConvertTo(d, sum), factor), low, high));
    if (!by_line) return put(range(hn::Add(hn::Mul(own, scale), second(other))), to, there);
    const Vector sum_of_both = hn::MulAdd(own, a, hn::MulAdd(second.byte(other), b, c));
    put(hn::Add(nearest(between(sum_of_both, least, most)), zero), to, there);
  });
}

void finish(const SumsEnd& end, const Sums& s) {
  if (s.two != nullptr)
    return s.two->type == DType::u8 ? finish_two<std::uint8_t>(end, s) : finish_two<std::int8_t>(end, s);
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

constexpr CodesKernel kernel = {LAMINA_SIMD_SET, read, write, finish};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const CodesKernel> codes_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
