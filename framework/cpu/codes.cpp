#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/codes.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "lamina/cpu/codes.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
using Whole = hn::RebindToSigned<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

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

/// The nearest whole numbers, between low and high, NaN to low, and `zero_point` more. The bounds are whole: to round
/// first or last is the same.
HWY_INLINE hn::Vec<Whole> bounded(Vector value, Vector low, Vector high, hn::Vec<Whole> zero_point) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const Vector there = hn::Max(value, low);  // x86's gives the second operand if either is NaN
#else
  const Vector there = hn::IfThenElse(hn::Gt(value, low), value, low);  // NaN is not greater
#endif
  return hn::Add(nearest(hn::Min(there, high)), zero_point);
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

struct Range {
  Vector low, high;  // less the zero point
  hn::Vec<Whole> zero_point;
  explicit Range(DType type, std::int32_t zero)
      : low(hn::Set(Tag(), static_cast<float>((type == DType::u8 ? 0 : -128) - zero))),
        high(hn::Set(Tag(), static_cast<float>((type == DType::u8 ? 255 : 127) - zero))),
        zero_point(hn::Set(Whole(), zero)) {}
};

template <class T>
void write_codes(DType type, const float* from, const Quantization& codes, T* to, std::int64_t count) {
  const Tag d;
  const Range range(type, codes.zero_point);
  const Vector scale = hn::Set(d, codes.scale);
  const auto one = [&](const float* some, T* target, int there) HWY_ATTR {
    put(bounded(hn::Div(hn::LoadU(d, some), scale), range.low, range.high, range.zero_point), target, there);
  };
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
  const Vector low = hn::Set(d, end.low), high = hn::Set(d, end.high), scale = hn::Set(d, end.quantization.scale);
  const auto zero = hn::Set(Whole(), end.quantization.zero_point);
  if (end.codes) {
    return each<T>(s, [&](auto sum, Vector factor, Vector, T* to, int there) HWY_ATTR {
      put(bounded(hn::Mul(hn::ConvertTo(d, sum), factor), low, high, zero), to, there);
    });
  }
  const Range range(end.type, end.quantization.zero_point);
  each<T>(s, [&](auto sum, Vector factor, Vector bias, T* to, int there) HWY_ATTR {
    using ::lamina::cpu::HWY_NAMESPACE::clamped;
    const Vector y = clamped(hn::Add(hn::Mul(hn::ConvertTo(d, sum), factor), bias), low, high);
    put(bounded(hn::Div(y, scale), range.low, range.high, range.zero_point), to, there);
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

constexpr CodesKernel kernel = {LAMINA_SIMD_SET, read, write, finish};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const CodesKernel> codes_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
