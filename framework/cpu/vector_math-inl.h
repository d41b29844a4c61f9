// Exponentials and error functions of vectors of floats, with products fused with sums where the instructions are: of
// all floats, subnormal, infinite and NaN among them, within about 2 units in the last place. Every length of vector
// gives the same bits. Coefficients are minimax fits to each function on the range that it says. Compiled once for each
// instruction set.

#if defined(LAMINA_CPU_VECTOR_MATH) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_VECTOR_MATH
#undef LAMINA_CPU_VECTOR_MATH
#else
#define LAMINA_CPU_VECTOR_MATH
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

/// e 2^n for whole numbers n, rounded once.
template <class D>
HWY_INLINE hn::Vec<D> scaled_by_power(D d, hn::Vec<D> e, hn::Vec<D> n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) return hn::Vec<D>{_mm512_scalef_ps(e.raw, n.raw)};
#endif
  // In two factors, either within a float's range where the product is not.
  const hn::RebindToSigned<D> whole;
#if HWY_TARGET == HWY_SCALAR  // converts as C++ does, where NaN becomes no whole number; e is NaN then too
  n = hn::IfThenElseZero(hn::Eq(n, n), n);
#endif
  const auto power = hn::ConvertTo(whole, n), half = hn::ShiftRight<1>(power);
  const auto two_to = [&](auto k)
                          HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(whole, 127)))); };
  return hn::Mul(hn::Mul(e, two_to(half)), two_to(hn::Sub(power, half)));
}

/// c[0] + c[1] x + c[2] x^2 + ...
template <class D, std::size_t n>
HWY_INLINE hn::Vec<D> vector_polynomial(D d, hn::Vec<D> x, const float (&c)[n]) {
  auto sum = hn::Set(d, c[n - 1]);
  for (std::size_t i = n - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

/// exp(x + more) for x up to 89 and |more| far below 1, of which there may be none; NaN stays.
template <class D, class... More>
HWY_INLINE hn::Vec<D> exp_below_89(D d, hn::Vec<D> x, More... more) {
  const auto with_more = [&](hn::Vec<D> v) HWY_ATTR {
    if constexpr (sizeof...(more) > 0) v = hn::Add(v, more...);
    return v;
  };
  x = vector_max(hn::Set(d, -104.0f), x);  // e to that is 0
  const auto n = hn::Round(hn::Mul(with_more(x), hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // ln 2 in two parts
  r = with_more(hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r));
  constexpr float c[] = {0.5f, 1.666651508e-01f, 4.166619654e-02f, 8.369398527e-03f, 1.395126318e-03f};  // |r| < 0.35
  const auto p = hn::MulAdd(hn::Mul(r, r), vector_polynomial(d, r, c), r);
  return scaled_by_power(d, hn::Add(p, hn::Set(d, 1.0f)), n);
}

template <class D>
HWY_INLINE hn::Vec<D> vector_exp(D d, hn::Vec<D> x) {
  return exp_below_89(d, vector_min(hn::Set(d, 89.0f), x));
}

#if HWY_TARGET == HWY_AVX3
HWY_INLINE __m512 guessed_reciprocal(__m512 b) { return _mm512_rcp14_ps(b); }
HWY_INLINE __m256 guessed_reciprocal(__m256 b) { return _mm256_rcp14_ps(b); }
HWY_INLINE __m128 guessed_reciprocal(__m128 b) { return _mm_rcp14_ps(b); }
#endif

/// a / b for b of neither 0 nor infinity, to two units in the last place. AVX-512's division takes as long as all the
/// rest of an exponential.
template <class D>
HWY_INLINE hn::Vec<D> divided(D, hn::Vec<D> a, hn::Vec<D> b) {
#if HWY_TARGET == HWY_AVX3
  const hn::Vec<D> guess{guessed_reciprocal(b.raw)};
  const auto error = hn::NegMulAdd(b, guess, hn::Set(D(), 1.0f));
  return hn::Mul(a, hn::MulAdd(guess, error, guess));
#else
  return hn::Div(a, b);
#endif
}

/// (exp(2 x) - 1) / 2, for x from -52 to 44.5; NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> half_expm1(D d, hn::Vec<D> x) {
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 2.88539008f)));
  const auto r = hn::NegMulAdd(n, hn::Set(d, -1.06097220e-4f), hn::NegMulAdd(n, hn::Set(d, 0.3466796875f), x));
  constexpr float c[] = {1.0f, 6.666606032e-01f, 3.333295723e-01f, 1.339103764e-01f, 4.464404218e-02f};  // |r| < 0.175
  const auto half = hn::Set(d, 0.5f), power = scaled_by_power(d, half, n);
  const auto e = hn::MulAdd(hn::Mul(r, r), vector_polynomial(d, r, c), r);
  return hn::MulAdd(hn::Add(power, power), e, hn::Sub(power, half));
}

/// exp(x) - 1.
template <class D>
HWY_INLINE hn::Vec<D> vector_expm1(D d, hn::Vec<D> x) {
  const auto bounded = vector_min(hn::Set(d, 89.0f), vector_max(hn::Set(d, -104.0f), x));
  const auto half = half_expm1(d, hn::Mul(bounded, hn::Set(d, 0.5f)));
  return hn::Add(half, half);
}

/// From exp(-2 |x|) - 1, which is exact near 0.
template <class D>
HWY_INLINE hn::Vec<D> vector_tanh(D d, hn::Vec<D> x) {
  const auto h = half_expm1(d, hn::Neg(vector_min(hn::Set(d, 10.0f), hn::Abs(x))));
  return hn::CopySign(hn::Div(h, hn::Add(h, hn::Set(d, 1.0f))), x);
}

/// Large on neither side: exp of what is not positive.
template <class D>
HWY_INLINE hn::Vec<D> vector_sigmoid(D d, hn::Vec<D> x) {
  const auto e = exp_below_89(d, hn::Or(x, hn::Set(d, -0.0f))), one = hn::Set(d, 1.0f);
  return divided(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

/// The complementary error function of x >= 0: exp(-x^2) times a polynomial in (x - 2) / (x + 2).
template <class D>
HWY_INLINE hn::Vec<D> vector_erfc(D d, hn::Vec<D> x) {
  constexpr float c[] = {2.553956760e-01f, -4.271858699e-01f, 2.416582583e-01f,  -7.897793412e-02f,
                         3.731727666e-03f, 6.991994960e-03f,  -8.410704988e-04f, -9.614054481e-04f,
                         3.346480985e-05f, 1.369927228e-04f,  2.571513790e-05f};
  const auto far = hn::Set(d, 10.5f), two = hn::Set(d, 2.0f);  // from there on it is 0
  const auto t = hn::IfThenElse(hn::Lt(far, x), far, x);
  const hn::RebindToUnsigned<D> bits;
  const auto high = hn::And(t, hn::BitCast(d, hn::Set(bits, 0xfffff000u)));  // its square is exact
  const auto e = exp_below_89(d, hn::Neg(hn::Mul(high, high)), hn::Mul(hn::Sub(high, t), hn::Add(high, t)));
  return hn::Mul(e, vector_polynomial(d, divided(d, hn::Sub(t, two), hn::Add(t, two)), c));
}

template <class D>
HWY_INLINE hn::Vec<D> vector_erf(D d, hn::Vec<D> x) {
  constexpr float c[] = {1.128379166e+00f, -3.761262714e-01f, 1.128360018e-01f, -2.685444456e-02f,
                         5.189535278e-03f, -8.020840714e-04f, 7.889117579e-05f};  // |x| < 1
  constexpr float l[] = {2.671570155e-03f, 1.117438921e+00f,  6.544883788e-01f,
                         8.863453426e-02f, -1.477823134e-02f, 1.150435547e-03f};  // -log(1 - erf(|x|)) from there on
  const auto a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto large = hn::CopySign(hn::Sub(one, exp_below_89(d, hn::Neg(vector_polynomial(d, a, l)))), x);
  return hn::IfThenElse(hn::Lt(a, one), hn::Mul(x, vector_polynomial(d, hn::Mul(x, x), c)), large);
}

/// x times the normal distribution's integral up to x, whose small values are not differences of large ones.
template <class D>
HWY_INLINE hn::Vec<D> vector_gelu(D d, hn::Vec<D> x) {
  const auto tail = hn::Mul(hn::Set(d, 0.5f), vector_erfc(d, hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752440f))));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail)));
}

/// 2^x to 2^-13 of it, for x that is not infinite.
template <class D>
HWY_INLINE hn::Vec<D> rough_exp2(D d, hn::Vec<D> x) {
  const auto n = hn::Round(x);
  constexpr float c[] = {9.9992805e-01f, 6.9326101e-01f, 2.4261157e-01f, 5.517177e-02f};  // |x - n| <= 0.5
  return scaled_by_power(d, vector_polynomial(d, hn::Sub(x, n), c), n);
}

/// 1 / x to 2^-13 of it.
template <class D>
HWY_INLINE hn::Vec<D> rough_reciprocal(D, hn::Vec<D> x) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<D>{guessed_reciprocal(x.raw)};
#else
  return hn::Div(hn::Set(D(), 1.0f), x);
#endif
}

/// x sigmoid(x) for a result that becomes bf16: to 2^-12 of it, a sixteenth of what bf16's rounding adds.
template <class D>
HWY_INLINE hn::Vec<D> rough_silu(D d, hn::Vec<D> x) {
  const auto far = hn::Set(d, 200.0f);  // 2 to that is infinite
  const auto power = hn::Max(hn::Min(hn::Mul(x, hn::Set(d, -1.44269504f)), far), hn::Neg(far));
  return hn::Mul(x, rough_reciprocal(d, hn::Add(rough_exp2(d, power), hn::Set(d, 1.0f))));
}

/// vector_gelu for a result that becomes bf16: to 2^-11 of it. x or 0, less |x| times the integral of the tail beyond
/// it, which is exp(-x^2 / 2) times a polynomial in 1 / (1 + 0.3 |x|).
template <class D>
HWY_INLINE hn::Vec<D> rough_gelu(D d, hn::Vec<D> x) {
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto a = hn::Min(hn::Abs(x), hn::Set(d, 16.0f));  // from 14 on the tail is 0
  const auto t = rough_reciprocal(d, hn::MulAdd(a, hn::Set(d, 0.3f), one));
  constexpr float c[] = {0.11820529f, 0.13747223f, 0.03559963f, 0.20883747f};
  const auto scaled = hn::Mul(a, hn::Set(d, 0.84932180f));  // sqrt(log2(e) / 2)
  const auto e = rough_exp2(d, hn::Neg(hn::Mul(scaled, scaled)));
  const auto tail = hn::Mul(hn::Mul(e, t), vector_polynomial(d, t, c));
  return hn::NegMulAdd(a, tail, hn::IfThenElse(hn::Lt(x, zero), zero, x));
}

LAMINA_SIMD_END;
#endif
