#pragma once

#include "lamina/cuda/chain_step.h"

/// The functions of cpu/array/pointwise.cpp, of one element each.
namespace lamina::cuda {

template <class T>
__device__ inline T lesser(T v, T x) {
  return v < x || v != v ? v : x;
}
template <class T>
__device__ inline T greater(T v, T x) {
  return v > x || v != v ? v : x;
}
template <class T>
__device__ inline T clipped(T v, T low, T high) {
  return lesser(greater(v, low), high);
}
template <class T>
__device__ inline T sigmoid_of(T v) {
  const T e = exp(-fabs(v));
  return (v < T{0} ? e : T{1}) / (T{1} + e);
}
template <class T>
__device__ inline T elu_of(T v, T alpha) {
  return v > T{0} ? v : alpha * expm1(v);
}

/// x tanh(log(1 + e^x)), with the exponential of what is not positive.
template <class T>
__device__ inline T mish_of(T v) {
  const T e = exp(-fabs(v)), below = e * (e + T{2}), above = T{1} + T{2} * e;
  return v * (v < T{0} ? below / (below + T{2}) : above / (above + T{2} * e * e));
}
/// Small values are not differences of large ones.
template <class T>
__device__ inline T gelu_of(T v) {
  const T tail = T(0.5) * erfc(fabs(v) * T(0.70710678118654752440));
  return v * (v < T{0} ? tail : T{1} - tail);
}
template <class T>
__device__ inline T gelu_tanh_of(T v) {
  return v * sigmoid_of(v * (T(1.5957691216057307117) + T(0.071354816272600254) * v * v));
}

/// Of a function that is known: its text alone.
template <class T>
__device__ __forceinline__ T one_function(Pointwise function, T v, T x, T y) {
  switch (function) {
    case Pointwise::relu: return v < T{0} ? T{0} : v;
    case Pointwise::sigmoid: return sigmoid_of(v);
    case Pointwise::tanh: return tanh(v);
    case Pointwise::exp: return exp(v);
    case Pointwise::log: return log(v);
    case Pointwise::sqrt: return sqrt(v);
    case Pointwise::rsqrt: return T{1} / sqrt(v);
    case Pointwise::reciprocal: return T{1} / v;
    case Pointwise::abs: return fabs(v);
    case Pointwise::neg: return -v;
    case Pointwise::sign: return v > T{0} ? T{1} : v < T{0} ? T{-1} : v;
    case Pointwise::erf: return erf(v);
    case Pointwise::floor: return floor(v);
    case Pointwise::ceil: return ceil(v);
    case Pointwise::round: return rint(v);
    case Pointwise::silu: return v * sigmoid_of(v);
    case Pointwise::mish: return mish_of(v);
    case Pointwise::gelu: return gelu_of(v);
    case Pointwise::gelu_tanh: return gelu_tanh_of(v);
    case Pointwise::softplus: return (v > T{0} ? v : T{0}) + log1p(exp(-fabs(v)));
    case Pointwise::softsign: return v / (T{1} + fabs(v));
    case Pointwise::hard_swish: return v * clipped(v * (T{1} / T{6}) + T(0.5), T{0}, T{1});
    case Pointwise::sin: return sin(v);
    case Pointwise::cos: return cos(v);
    case Pointwise::tan: return tan(v);
    case Pointwise::asin: return asin(v);
    case Pointwise::acos: return acos(v);
    case Pointwise::atan: return atan(v);
    case Pointwise::sinh: return sinh(v);
    case Pointwise::cosh: return cosh(v);
    case Pointwise::asinh: return asinh(v);
    case Pointwise::acosh: return acosh(v);
    case Pointwise::atanh: return atanh(v);
    case Pointwise::is_nan: return v != v;
    case Pointwise::logical_not: return v == T{0};
    case Pointwise::identity: return v;
    case Pointwise::add: return v + x;
    case Pointwise::sub: return v - x;
    case Pointwise::mul: return v * x;
    case Pointwise::div: return v / x;
    case Pointwise::pow: return x == T{2} ? v * v : pow(v, x);
    case Pointwise::min: return lesser(v, x);
    case Pointwise::max: return greater(v, x);
    case Pointwise::mod: {
      const T rest = fmod(v, x);
      return rest != T{0} && (rest < T{0}) != (x < T{0}) ? rest + x : rest;
    }
    case Pointwise::fmod: return fmod(v, x);
    case Pointwise::prelu: return v < T{0} ? v * x : v;
    case Pointwise::elu: return elu_of(v, x);
    case Pointwise::celu: return v > T{0} ? v : x * expm1(v / x);
    case Pointwise::thresholded_relu: return v <= x ? T{0} : v;
    case Pointwise::equal: return v == x;
    case Pointwise::less: return v < x;
    case Pointwise::less_equal: return v <= x;
    case Pointwise::greater: return v > x;
    case Pointwise::greater_equal: return v >= x;
    case Pointwise::logical_and: return v != T{0} && x != T{0};
    case Pointwise::logical_or: return v != T{0} || x != T{0};
    case Pointwise::logical_xor: return (v != T{0}) != (x != T{0});
    case Pointwise::clip: return clipped(v, x, y);
    case Pointwise::where: return v != T{0} ? x : y;
    case Pointwise::hard_sigmoid: return clipped(v * x + y, T{0}, T{1});
    case Pointwise::selu: return y * elu_of(v, x);
    case Pointwise::shrink: return v < -y ? v + x : v > y ? v - x : v != v ? v : T{0};
    case Pointwise::is_inf: return isinf(v) && (v < T{0} ? x : y) != T{0};
    case Pointwise::quantize: {
      const T q = rint(v / x) + y;
      return q != q ? -T{INFINITY} : q;
    }
    default: return v;
  }
}

/// Not inlined: most of it is large.
template <class T>
__device__ __noinline__ T float_function(Pointwise function, T v, T x, T y) {
  return one_function(function, v, x, y);
}

/// What is cheap, and most of what networks have: inlined, for n elements by one branch. Nothing for the others.
template <int n>
__device__ inline void apply_common(Pointwise function, float (&values)[n], const float (&x)[n], const float (&y)[n]) {
  const auto each = [&](auto f) {
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = f(values[j], x[j], y[j]);
  };
  switch (function) {
    case Pointwise::relu: return each([](float v, float, float) { return v < 0.0f ? 0.0f : v; });
    case Pointwise::sigmoid: return each([](float v, float, float) { return sigmoid_of(v); });
    case Pointwise::silu: return each([](float v, float, float) { return v * sigmoid_of(v); });
    case Pointwise::hard_swish:
      return each([](float v, float, float) { return v * clipped(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f); });
    case Pointwise::hard_sigmoid: return each([](float v, float a, float b) { return clipped(v * a + b, 0.0f, 1.0f); });
    case Pointwise::tanh: return each([](float v, float, float) { return tanhf(v); });
    case Pointwise::gelu: return each([](float v, float, float) { return gelu_of(v); });
    case Pointwise::gelu_tanh: return each([](float v, float, float) { return gelu_tanh_of(v); });
    case Pointwise::mish: return each([](float v, float, float) { return mish_of(v); });
    case Pointwise::elu: return each([](float v, float a, float) { return elu_of(v, a); });
    case Pointwise::add: return each([](float v, float a, float) { return v + a; });
    case Pointwise::sub: return each([](float v, float a, float) { return v - a; });
    case Pointwise::mul: return each([](float v, float a, float) { return v * a; });
    case Pointwise::min: return each([](float v, float a, float) { return lesser(v, a); });
    case Pointwise::max: return each([](float v, float a, float) { return greater(v, a); });
    case Pointwise::prelu: return each([](float v, float a, float) { return v < 0.0f ? v * a : v; });
    case Pointwise::clip: return each([](float v, float a, float b) { return clipped(v, a, b); });
    default: return;
  }
}

}  // namespace lamina::cuda
