// What each function computes: of floats. kernel/rules/whole_function.h has those of whole numbers.
//
// Loops over blocks, one for each function, which the compiler vectorises: conditions are selections between two values
// that are both computed. Comparisons are written so that NaN stays.

// Compiled once for each instruction set by Highway. What activations are made of is written with its vectors; there
// products are fused with sums where the instructions are. All other bits are the same for every set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/array/pointwise.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cpu/array/pointwise.h"
#include "lamina/cpu/simd.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vector_math.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

template <class T>
bool is_nan(T v) {
  return v != v;
}

/// The lesser and the greater of two, NaN if one is.
template <class T>
T lesser(T v, T x) {
  const T one = v < x ? v : x;  // x, if either is NaN
  return is_nan(v) ? v : one;
}
template <class T>
T greater(T v, T x) {
  const T one = v > x ? v : x;
  return is_nan(v) ? v : one;
}

template <class T>
T clipped(T v, T low, T high) {
  return lesser(greater(v, low), high);
}

/// The same between two numbers that are not NaN.
template <class T>
T bounded(T v, T low, T high) {
  const T above = v < low ? low : v;
  return above > high ? high : above;
}

/// The remainder with the divisor's sign, as Python's.
template <class T>
T modulo(T v, T x) {
  const T rest = std::fmod(v, x);
  return rest != T{0} && (rest < T{0}) != (x < T{0}) ? rest + x : rest;
}

/// x tanh(log(1 + e^x)), the exponential of what is not positive.
template <class T>
T mish(T v) {
  const T e = exp_of(-std::abs(v)), below = e * (e + T{2}), above = T{1} + T{2} * e;
  return v * (v < T{0} ? below / (below + T{2}) : above / (above + T{2} * e * e));
}

/// x times the normal distribution's integral up to x, whose small values are not differences of large ones.
template <class T>
T gelu(T v) {
  const T tail = T(0.5) * erfc_of(std::abs(v) * T(0.70710678118654752440));
  return v * (v < T{0} ? tail : T{1} - tail);
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
template <class T>
T gelu_tanh(T v) {
  return v * sigmoid_of(v * (T(1.5957691216057307117) + T(0.071354816272600254) * v * v));
}

template <class T>
T logistic_log(T v) {
  return (v > T{0} ? v : T{0}) + log1p_of(exp_of(-std::abs(v)));
}

template <class T>
T elu(T v, T alpha) {
  const T below = alpha * expm1_of(v);
  return v > T{0} ? v : below;
}

template <class T>
T celu(T v, T alpha) {
  const T below = alpha * expm1_of(v / alpha);
  return v > T{0} ? v : below;
}

template <class T>
T shrunk(T v, T bias, T lambda) {
  const T negative = v < -lambda ? v + bias : T{0}, positive = v > lambda ? v - bias : negative;
  return is_nan(v) ? v : positive;
}

/// The lowest of all for NaN.
template <class T>
T quantized(T v, T scale, T zero_point) {
  const T q = std::rint(v / scale) + zero_point;
  return is_nan(q) ? -std::numeric_limits<T>::infinity() : q;
}

template <class T>
T power(T v, T x) {
  return std::pow(v, x);
}

template <class T, class F>
void each(const StepOperands<T>& o, T* __restrict output, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = static_cast<T>(f(o.value[i], o.x[i], o.y[i]));
}

/// The same with f(d, vector): of floats, where there are vectors; `g` of others.
template <class F, class G>
void each_vector(const StepOperands<float>& o, float* output, std::int64_t count, F f, G g) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  (void)g;
  for_vectors(count,
              [&](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(f(d, hn::LoadU(d, o.value + i)), d, output + i); });
#else
  (void)f;
  each(o, output, count, g);
#endif
}
template <class F, class G>
void each_vector(const StepOperands<double>& o, double* output, std::int64_t count, F, G g) {
  each(o, output, count, g);
}

template <class T>
bool all_are(const T* x, std::int64_t count, T number) {
  return std::all_of(x, x + count, [number](T one) { return one == number; });
}

// clang-format off
template <class T>
void apply_loop(Pointwise function, const StepOperands<T>& o, T* output, std::int64_t n) {
  switch (function) {
    case Pointwise::relu: return each(o, output, n, [](T v, T, T) { return v < T{0} ? T{0} : v; });
    case Pointwise::sigmoid:
      return each_vector(o, output, n, [](auto d, auto v) HWY_ATTR { return vector_sigmoid(d, v); },
                         [](T v, T, T) { return sigmoid_of(v); });
    case Pointwise::tanh: return each(o, output, n, [](T v, T, T) { return tanh_of(v); });
    case Pointwise::exp:
      return each_vector(o, output, n, [](auto d, auto v) HWY_ATTR { return vector_exp(d, v); },
                         [](T v, T, T) { return exp_of(v); });
    case Pointwise::log: return each(o, output, n, [](T v, T, T) { return std::log(v); });
    case Pointwise::sqrt: return each(o, output, n, [](T v, T, T) { return std::sqrt(v); });
    case Pointwise::rsqrt: return each(o, output, n, [](T v, T, T) { return T{1} / std::sqrt(v); });
    case Pointwise::reciprocal: return each(o, output, n, [](T v, T, T) { return T{1} / v; });
    case Pointwise::abs: return each(o, output, n, [](T v, T, T) { return std::abs(v); });
    case Pointwise::neg: return each(o, output, n, [](T v, T, T) { return -v; });
    case Pointwise::sign:
      return each(o, output, n, [](T v, T, T) { return v > T{0} ? T{1} : v < T{0} ? T{-1} : v; });
    case Pointwise::erf: return each(o, output, n, [](T v, T, T) { return erf_of(v); });
    case Pointwise::floor: return each(o, output, n, [](T v, T, T) { return std::floor(v); });
    case Pointwise::ceil: return each(o, output, n, [](T v, T, T) { return std::ceil(v); });
    case Pointwise::round: return each(o, output, n, [](T v, T, T) { return std::rint(v); });
    case Pointwise::silu:
      return each_vector(o, output, n, [](auto d, auto v) HWY_ATTR { return hn::Mul(v, vector_sigmoid(d, v)); },
                         [](T v, T, T) { return v * sigmoid_of(v); });
    case Pointwise::mish: return each(o, output, n, [](T v, T, T) { return mish(v); });
    case Pointwise::gelu:
      return each_vector(o, output, n, [](auto d, auto v) HWY_ATTR { return vector_gelu(d, v); },
                         [](T v, T, T) { return gelu(v); });
    case Pointwise::gelu_tanh: return each(o, output, n, [](T v, T, T) { return gelu_tanh(v); });
    case Pointwise::softplus: return each(o, output, n, [](T v, T, T) { return logistic_log(v); });
    case Pointwise::softsign: return each(o, output, n, [](T v, T, T) { return v / (T{1} + std::abs(v)); });
    case Pointwise::hard_swish:
      return each(o, output, n, [](T v, T, T) { return v * bounded(v * (T{1} / T{6}) + T(0.5), T{0}, T{1}); });
    case Pointwise::sin: return each(o, output, n, [](T v, T, T) { return std::sin(v); });
    case Pointwise::cos: return each(o, output, n, [](T v, T, T) { return std::cos(v); });
    case Pointwise::tan: return each(o, output, n, [](T v, T, T) { return std::tan(v); });
    case Pointwise::asin: return each(o, output, n, [](T v, T, T) { return std::asin(v); });
    case Pointwise::acos: return each(o, output, n, [](T v, T, T) { return std::acos(v); });
    case Pointwise::atan: return each(o, output, n, [](T v, T, T) { return std::atan(v); });
    case Pointwise::sinh: return each(o, output, n, [](T v, T, T) { return std::sinh(v); });
    case Pointwise::cosh: return each(o, output, n, [](T v, T, T) { return std::cosh(v); });
    case Pointwise::asinh: return each(o, output, n, [](T v, T, T) { return std::asinh(v); });
    case Pointwise::acosh: return each(o, output, n, [](T v, T, T) { return std::acosh(v); });
    case Pointwise::atanh: return each(o, output, n, [](T v, T, T) { return std::atanh(v); });
    case Pointwise::is_nan: return each(o, output, n, [](T v, T, T) { return is_nan(v); });
    case Pointwise::logical_not: return each(o, output, n, [](T v, T, T) { return v == T{0}; });
    case Pointwise::identity: return each(o, output, n, [](T v, T, T) { return v; });
    case Pointwise::add: return each(o, output, n, [](T v, T x, T) { return v + x; });
    case Pointwise::sub: return each(o, output, n, [](T v, T x, T) { return v - x; });
    case Pointwise::mul: return each(o, output, n, [](T v, T x, T) { return v * x; });
    case Pointwise::div: return each(o, output, n, [](T v, T x, T) { return v / x; });
    case Pointwise::pow:
      if (all_are(o.x, n, T{2})) return each(o, output, n, [](T v, T, T) { return v * v; });
      return each(o, output, n, [](T v, T x, T) { return power(v, x); });
    case Pointwise::min: return each(o, output, n, [](T v, T x, T) { return lesser(v, x); });
    case Pointwise::max: return each(o, output, n, [](T v, T x, T) { return greater(v, x); });
    case Pointwise::mod: return each(o, output, n, [](T v, T x, T) { return modulo(v, x); });
    case Pointwise::fmod: return each(o, output, n, [](T v, T x, T) { return std::fmod(v, x); });
    case Pointwise::prelu: return each(o, output, n, [](T v, T x, T) { return v < T{0} ? v * x : v; });
    case Pointwise::elu: return each(o, output, n, [](T v, T x, T) { return elu(v, x); });
    case Pointwise::celu: return each(o, output, n, [](T v, T x, T) { return celu(v, x); });
    case Pointwise::thresholded_relu: return each(o, output, n, [](T v, T x, T) { return v <= x ? T{0} : v; });
    case Pointwise::equal: return each(o, output, n, [](T v, T x, T) { return v == x; });
    case Pointwise::less: return each(o, output, n, [](T v, T x, T) { return v < x; });
    case Pointwise::less_equal: return each(o, output, n, [](T v, T x, T) { return v <= x; });
    case Pointwise::greater: return each(o, output, n, [](T v, T x, T) { return v > x; });
    case Pointwise::greater_equal: return each(o, output, n, [](T v, T x, T) { return v >= x; });
    case Pointwise::logical_and: return each(o, output, n, [](T v, T x, T) { return v != T{0} && x != T{0}; });
    case Pointwise::logical_or: return each(o, output, n, [](T v, T x, T) { return v != T{0} || x != T{0}; });
    case Pointwise::logical_xor: return each(o, output, n, [](T v, T x, T) { return (v != T{0}) != (x != T{0}); });
    case Pointwise::clip: return each(o, output, n, [](T v, T x, T y) { return clipped(v, x, y); });
    case Pointwise::where: return each(o, output, n, [](T v, T x, T y) { return v != T{0} ? x : y; });
    case Pointwise::hard_sigmoid:
      return each(o, output, n, [](T v, T x, T y) { return bounded(v * x + y, T{0}, T{1}); });
    case Pointwise::selu: return each(o, output, n, [](T v, T x, T y) { return y * elu(v, x); });
    case Pointwise::shrink: return each(o, output, n, [](T v, T x, T y) { return shrunk(v, x, y); });
    case Pointwise::is_inf:
      return each(o, output, n, [](T v, T x, T y) {
        return std::isinf(v) && (v < T{0} ? x : y) != T{0};
      });
    case Pointwise::quantize: return each(o, output, n, [](T v, T x, T y) { return quantized(v, x, y); });
    // Of bits, which floats have no say in.
    case Pointwise::bit_not:
    case Pointwise::bit_and:
    case Pointwise::bit_or:
    case Pointwise::bit_xor:
    case Pointwise::shift_left:
    case Pointwise::shift_right: return;
  }
}
// clang-format on

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count) {
  for_vectors(count, [&](auto d, std::int64_t i) HWY_ATTR { store_floats(d, load_floats(d, from + i), to + i); });
}

constexpr ApplyKernel kernel = {LAMINA_SIMD_SET, apply_loop<float>, apply_loop<double>, convert<bfloat16, float>,
                                convert<float, bfloat16>};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const ApplyKernel> apply_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
