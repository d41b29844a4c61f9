// Exponentials of vectors of floats, as vector_math.h has them of one, with products fused with sums: of all floats,
// subnormal, infinite and NaN among them, within about 2 units in the last place. Every length of vector gives the same
// bits. Compiled once for each instruction set.

#if defined(LAMINA_CPU_VECTOR_MATH) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_VECTOR_MATH
#undef LAMINA_CPU_VECTOR_MATH
#else
#define LAMINA_CPU_VECTOR_MATH
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// e 2^n for whole numbers n, rounded once.
template <class D>
HWY_INLINE hn::Vec<D> scaled_by_power(D d, hn::Vec<D> e, hn::Vec<D> n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) return hn::Vec<D>{_mm512_scalef_ps(e.raw, n.raw)};
#endif
  // In two factors, either within a float's range where the product is not.
  const hn::RebindToSigned<D> whole;
  const auto power = hn::ConvertTo(whole, n), half = hn::ShiftRight<1>(power);
  const auto two_to = [&](auto k)
                          HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(whole, 127)))); };
  return hn::Mul(hn::Mul(e, two_to(half)), two_to(hn::Sub(power, half)));
}

/// exp(x) for x up to 89; NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> exp_below_89(D d, hn::Vec<D> x) {
  const auto low = hn::Set(d, -104.0f);  // e to that is 0
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // ln 2 in two parts
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.395126318e-03f);
  for (const float c : {8.369398527e-03f, 4.166619654e-02f, 1.666651508e-01f, 0.5f}) {
    p = hn::MulAdd(p, r, hn::Set(d, c));
  }
  p = hn::MulAdd(hn::Mul(r, r), p, r);
  return scaled_by_power(d, hn::Add(p, hn::Set(d, 1.0f)), n);
}

template <class D>
HWY_INLINE hn::Vec<D> vector_exp(D d, hn::Vec<D> x) {
  const auto high = hn::Set(d, 89.0f);
  return exp_below_89(d, hn::IfThenElse(hn::Lt(high, x), high, x));
}

/// Large on neither side: exp of what is not positive.
template <class D>
HWY_INLINE hn::Vec<D> vector_sigmoid(D d, hn::Vec<D> x) {
  const auto e = exp_below_89(d, hn::Or(x, hn::Set(d, -0.0f))), one = hn::Set(d, 1.0f);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();
#endif
