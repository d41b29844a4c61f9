// What each function computes: of floats. kernel/rules/whole_function.h has those of whole numbers.
//
// Loops over blocks, one for each function, which the compiler vectorises: conditions are selections between two values
// that are both computed. Comparisons are written so that NaN stays.

// Compiled once for each instruction set by Highway. What activations are made of is written with its vectors; there
// products are fused with sums where the instructions are. All other bits are the same for every set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/array/pointwise.cpp"
#include "lamina/cpu/simd_targets.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cpu/array/pointwise.h"
#include "lamina/cpu/simd.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

/// The lesser and the greater of two, NaN if one is.
template <class T>
T lesser(T v, T x) {
  const T one = v < x ? v : x;  // x, if either is NaN
  return v != v ? v : one;
}
template <class T>
T greater(T v, T x) {
  const T one = v > x ? v : x;
  return v != v ? v : one;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V vector_clip(D, V v, V low, V high) {
  const V above = hn::IfThenElse(hn::IsNaN(low), low, vector_max(low, v));
  return hn::IfThenElse(hn::IsNaN(high), high, vector_min(high, above));
}

/// The remainder with the divisor's sign, as Python's.
template <class T>
T modulo(T v, T x) {
  const T rest = std::fmod(v, x);
  return rest != T{0} && (rest < T{0}) != (x < T{0}) ? rest + x : rest;
}

template <class T>
T sigmoid_of(T x) {
  const T e = std::exp(-std::abs(x));
  return (x < T{0} ? e : T{1}) / (T{1} + e);
}

/// x tanh(log(1 + e^x)), the exponential of what is not positive.
template <class T>
T mish(T v) {
  const T e = std::exp(-std::abs(v)), below = e * (e + T{2}), above = T{1} + T{2} * e;
  return v * (v < T{0} ? below / (below + T{2}) : above / (above + T{2} * e * e));
}
template <class D>
HWY_INLINE hn::Vec<D> vector_mish(D d, hn::Vec<D> v) {
  const auto one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const auto e = exp_below_89(d, hn::Or(v, hn::Set(d, -0.0f))), square = hn::Mul(e, hn::Add(e, two));
  const auto negative = hn::Lt(v, hn::Zero(d));
  const auto above = hn::MulAdd(two, e, one), part = hn::IfThenElse(negative, square, above);
  return hn::Mul(v, divided(d, part, hn::Add(part, hn::IfThenElse(negative, two, hn::Mul(two, hn::Mul(e, e))))));
}

/// What gelu_tanh is x times the sigmoid of: 2 sqrt(2 / pi) (x + 0.044715 x^3).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_argument(D d, V v) {
  const auto a = hn::Set(d, 0.071354816272600254f), b = hn::Set(d, 1.5957691216057307117f);
  return hn::Mul(v, hn::MulAdd(hn::Mul(v, v), a, b));
}

/// x times the normal distribution's integral up to x, whose small values are not differences of large ones.
template <class T>
T gelu(T v) {
  const T tail = T(0.5) * std::erfc(std::abs(v) * T(0.70710678118654752440));
  return v * (v < T{0} ? tail : T{1} - tail);
}

/// The lowest of all for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V vector_quantize(D d, V v, V scale, V zero_point) {
  const V q = hn::Add(hn::Round(hn::Div(v, scale)), zero_point);
  return hn::IfThenElse(hn::IsNaN(q), hn::Neg(hn::Inf(d)), q);
}

/// v, or alpha (exp(x) - 1) where it is not positive.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V vector_elu(D d, V v, V x, V alpha) {
  return hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(alpha, vector_expm1(d, x)));
}

template <class T, class F>
void each(const StepOperands<T>& o, T* __restrict output, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = static_cast<T>(f(o.value[i], o.x[i], o.y[i]));
}

/// Of floats f(d, vectors); of doubles g.
template <class F, class G>
void each_vector(StepOperands<float> o, float* output, std::int64_t count, F f, G) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(f(d, hn::LoadU(d, o.value + i), hn::LoadU(d, o.x + i), hn::LoadU(d, o.y + i)), d, output + i);
  });
}
template <class F, class G>
void each_vector(const StepOperands<double>& o, double* output, std::int64_t count, F, G g) {
  each(o, output, count, g);
}

/// The same where f is right from `low` to `high`: vectors with an element outside are g's.
template <class T, class F, class G>
void each_between(T low, T high, const StepOperands<T>& o, T* output, std::int64_t count, F f, G g) {
  each_vector(
      o, output, count,
      [&](auto d, auto v, auto, auto) HWY_ATTR {
        if (HWY_LIKELY(hn::AllTrue(d, hn::And(hn::Ge(v, hn::Set(d, low)), hn::Le(v, hn::Set(d, high))))))
          return f(d, v);
        HWY_ALIGN float lane[lanes];
        hn::StoreU(v, d, lane);
        for (int i = 0; i < lanes_of(d); ++i) lane[i] = static_cast<float>(g(lane[i], lane[i], lane[i]));
        return hn::LoadU(d, lane);
      },
      g);
}

template <class T>
bool all_are(const T* x, std::int64_t count, T number) {
  return std::all_of(x, x + count, [number](T one) { return one == number; });
}

// clang-format off
#define EACH(number) each(o, output, n, [](T v, [[maybe_unused]] T x, [[maybe_unused]] T y) { return number; })
#define VECTORS(vector, number) each_vector(o, output, n,                                                        \
    [](auto d, auto v, [[maybe_unused]] auto x, [[maybe_unused]] auto y) HWY_ATTR { return vector; },            \
    [](T v, [[maybe_unused]] T x, [[maybe_unused]] T y) { return number; })
#define BETWEEN(low, high, vector, number) each_between(T(low), T(high), o, output, n,                           \
    [](auto d, auto v) HWY_ATTR { return vector; }, [](T v, T, T) { return number; })
template <class T>
void apply_loop(Pointwise function, const StepOperands<T>& o, T* output, std::int64_t n) {
  switch (function) {
    case Pointwise::relu: return EACH(v < T{0} ? T{0} : v);
    case Pointwise::sigmoid: return VECTORS(vector_sigmoid(d, v), sigmoid_of(v));
    case Pointwise::tanh: return VECTORS(vector_tanh(d, v), std::tanh(v));
    case Pointwise::exp: return VECTORS(vector_exp(d, v), std::exp(v));
    case Pointwise::log: return BETWEEN(1e-37, 3e38, hn::Log(d, v), std::log(v));
    case Pointwise::sqrt: return EACH(std::sqrt(v));
    case Pointwise::rsqrt: return EACH(T{1} / std::sqrt(v));
    case Pointwise::reciprocal: return EACH(T{1} / v);
    case Pointwise::abs: return EACH(std::abs(v));
    case Pointwise::neg: return EACH(-v);
    case Pointwise::sign: return EACH(v > T{0} ? T{1} : v < T{0} ? T{-1} : v);
    case Pointwise::erf: return VECTORS(vector_erf(d, v), std::erf(v));
    case Pointwise::floor: return EACH(std::floor(v));
    case Pointwise::ceil: return EACH(std::ceil(v));
    case Pointwise::round: return EACH(std::rint(v));
    case Pointwise::silu: return VECTORS(hn::Mul(v, vector_sigmoid(d, v)), v * sigmoid_of(v));
    case Pointwise::mish: return VECTORS(vector_mish(d, v), mish(v));
    case Pointwise::gelu: return VECTORS(vector_gelu(d, v), gelu(v));
    case Pointwise::gelu_tanh:
      return VECTORS(hn::Mul(v, vector_sigmoid(d, tanh_argument(d, v))),
                     v * sigmoid_of(v * (T(1.5957691216057307117) + T(0.071354816272600254) * v * v)));
    case Pointwise::softplus:
      return VECTORS(hn::Add(hn::Log1p(d, exp_below_89(d, hn::Neg(hn::Abs(v)))), vector_max(hn::Zero(d), v)),
                     (v > T{0} ? v : T{0}) + std::log1p(std::exp(-std::abs(v))));
    case Pointwise::softsign: return EACH(v / (T{1} + std::abs(v)));
    case Pointwise::hard_swish:
      return VECTORS(hn::Mul(v, clamped(hn::Add(hn::Mul(v, hn::Set(d, 1.0f / 6)), hn::Set(d, 0.5f)), hn::Zero(d),
                                        hn::Set(d, 1.0f))),
                     v * lesser(greater(v * (T{1} / T{6}) + T(0.5), T{0}), T{1}));
    case Pointwise::sin: return BETWEEN(-3.9e4, 3.9e4, hn::Sin(d, v), std::sin(v));
    case Pointwise::cos: return BETWEEN(-3.9e4, 3.9e4, hn::Cos(d, v), std::cos(v));
    case Pointwise::tan: return BETWEEN(-3.9e4, 3.9e4, hn::Div(hn::Sin(d, v), hn::Cos(d, v)), std::tan(v));
    case Pointwise::asin: return VECTORS(hn::Asin(d, v), std::asin(v));
    case Pointwise::acos: return VECTORS(hn::Acos(d, v), std::acos(v));
    case Pointwise::atan: return VECTORS(hn::Atan(d, v), std::atan(v));
    case Pointwise::sinh: return BETWEEN(-80, 80, hn::Sinh(d, v), std::sinh(v));
    case Pointwise::cosh: return EACH(std::cosh(v));
    case Pointwise::asinh: return BETWEEN(-1e18, 1e18, hn::Asinh(d, v), std::asinh(v));
    case Pointwise::acosh: return BETWEEN(1, 1e18, hn::Acosh(d, v), std::acosh(v));
    case Pointwise::atanh: return BETWEEN(-0.999, 0.999, hn::Atanh(d, v), std::atanh(v));
    case Pointwise::is_nan: return EACH(v != v ? T{1} : T{0});
    case Pointwise::logical_not: return EACH(v == T{0} ? T{1} : T{0});
    case Pointwise::identity: return EACH(v);
    case Pointwise::add: return EACH(v + x);
    case Pointwise::sub: return EACH(v - x);
    case Pointwise::mul: return EACH(v * x);
    case Pointwise::div: return EACH(v / x);
    case Pointwise::pow:
      if (all_are(o.x, n, T{2})) return EACH(v * v);
      return EACH(std::pow(v, x));
    case Pointwise::min: return EACH(lesser(v, x));
    case Pointwise::max: return EACH(greater(v, x));
    case Pointwise::mod: return EACH(modulo(v, x));
    case Pointwise::fmod: return EACH(std::fmod(v, x));
    case Pointwise::prelu: return EACH(v < T{0} ? v * x : v);
    case Pointwise::elu: return VECTORS(vector_elu(d, v, v, x), v > T{0} ? v : x * std::expm1(v));
    case Pointwise::celu: return VECTORS(vector_elu(d, v, hn::Div(v, x), x), v > T{0} ? v : x * std::expm1(v / x));
    case Pointwise::thresholded_relu: return EACH(v <= x ? T{0} : v);
    case Pointwise::equal: return EACH(v == x ? T{1} : T{0});
    case Pointwise::less: return EACH(v < x ? T{1} : T{0});
    case Pointwise::less_equal: return EACH(v <= x ? T{1} : T{0});
    case Pointwise::greater: return EACH(v > x ? T{1} : T{0});
    case Pointwise::greater_equal: return EACH(v >= x ? T{1} : T{0});
    case Pointwise::logical_and: return EACH(v != T{0} && x != T{0} ? T{1} : T{0});
    case Pointwise::logical_or: return EACH(v != T{0} || x != T{0} ? T{1} : T{0});
    case Pointwise::logical_xor: return EACH((v != T{0}) != (x != T{0}) ? T{1} : T{0});
    case Pointwise::clip: return VECTORS(vector_clip(d, v, x, y), lesser(greater(v, x), y));
    case Pointwise::where: return EACH(v != T{0} ? x : y);
    case Pointwise::hard_sigmoid:
      return VECTORS(clamped(hn::Add(hn::Mul(v, x), y), hn::Zero(d), hn::Set(d, 1.0f)),
                     lesser(greater(v * x + y, T{0}), T{1}));
    case Pointwise::selu: return VECTORS(hn::Mul(y, vector_elu(d, v, v, x)), y * (v > T{0} ? v : x * std::expm1(v)));
    case Pointwise::shrink: return EACH(v != v ? v : v > y ? v - x : v < -y ? v + x : T{0});
    case Pointwise::is_inf:
      return EACH(std::abs(v) == std::numeric_limits<T>::infinity() && (v < T{0} ? x : y) != T{0} ? T{1} : T{0});
    case Pointwise::quantize:
      return VECTORS(vector_quantize(d, v, x, y), v / x + y == v / x + y ? std::rint(v / x) + y : -std::numeric_limits<T>::infinity());
    // Of bits, which floats have no say in.
    case Pointwise::bit_not:
    case Pointwise::bit_and:
    case Pointwise::bit_or:
    case Pointwise::bit_xor:
    case Pointwise::shift_left:
    case Pointwise::shift_right:
    case Pointwise::to_codes:
    case Pointwise::look_up: return;
  }
}
#undef EACH
#undef VECTORS
#undef BETWEEN
// clang-format on

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count);

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const half* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(from)));
}
template <class D>
HWY_INLINE void store_floats(D, hn::Vec<D> value, half* to) {
  const hn::Rebind<hwy::float16_t, D> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(to));
}
constexpr auto widen_half = convert<half, float>;
constexpr auto narrow_half = convert<float, half>;
#else  // Highway's rounding is not IEEE's
constexpr auto widen_half = nullptr, narrow_half = nullptr;
#endif

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR { store_floats(d, load_floats(d, from + i), to + i); });
}

constexpr ApplyKernel kernel = {
    LAMINA_SIMD_SET,          apply_loop<float>, apply_loop<double>, convert<bfloat16, float>,
    convert<float, bfloat16>, widen_half,        narrow_half};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const ApplyKernel> apply_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
