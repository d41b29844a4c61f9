// What the functions compute of whole numbers of 64 bits. Sums and products wrap around; a division by 0 gives 0, and
// none traps.

#include "lamina/cpu/array/pointwise.h"

#include <type_traits>

namespace lamina::cpu {
namespace {

/// Arithmetic that wraps, of signed numbers too.
template <class T>
std::uint64_t bits(T v) {
  return static_cast<std::uint64_t>(v);
}

/// The one divisor but 0 by which a quotient may not be representable, and every remainder is 0.
template <class T>
bool is_minus_one(T x) {
  return std::is_signed_v<T> && bits(x) == ~std::uint64_t{0};
}

template <class T>
T negative(T v) {
  return static_cast<T>(0 - bits(v));
}

template <class T>
T quotient(T v, T x) {
  if (is_minus_one(x)) return negative(v);
  return x == 0 ? T{0} : v / x;
}

/// With the dividend's sign, as C's.
template <class T>
T remainder(T v, T x) {
  return x == 0 || is_minus_one(x) ? T{0} : v % x;
}

/// With the divisor's sign, as Python's.
template <class T>
T modulo(T v, T x) {
  const T rest = remainder(v, x);
  return rest != 0 && (rest < 0) != (x < 0) ? rest + x : rest;
}

/// By squaring; 1 / v^-x towards zero if the exponent is negative.
template <class T>
T power(T v, T x) {
  if (x < 0) return v == 1 ? T{1} : is_minus_one(v) ? (x % 2 == 0 ? T{1} : v) : T{0};
  std::uint64_t result = 1, base = bits(v);
  for (std::uint64_t exponent = bits(x); exponent != 0; exponent >>= 1) {
    if (exponent & 1u) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

template <class T>
T shifted_left(T v, T x) {
  return bits(x) < 64 ? static_cast<T>(bits(v) << bits(x)) : T{0};
}
template <class T>
T shifted_right(T v, T x) {
  return bits(x) < 64 ? static_cast<T>(v >> x) : T{0};
}

template <class T>
T clipped(T v, T low, T high) {
  const T above = v < low ? low : v;
  return above > high ? high : above;
}

template <class T, class F>
void each(const StepOperands<T>& o, T* __restrict output, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = static_cast<T>(f(o.value[i], o.x[i], o.y[i]));
}

}  // namespace

// clang-format off
template <class T>
void apply_whole(Pointwise function, const StepOperands<T>& o, T* output, std::int64_t n) {
  switch (function) {
    case Pointwise::relu: return each(o, output, n, [](T v, T, T) { return v < 0 ? T{0} : v; });
    case Pointwise::abs: return each(o, output, n, [](T v, T, T) { return v < 0 ? negative(v) : v; });
    case Pointwise::neg: return each(o, output, n, [](T v, T, T) { return negative(v); });
    case Pointwise::sign: return each(o, output, n, [](T v, T, T) { return (v > 0) - (v < 0); });
    case Pointwise::is_nan:
    case Pointwise::is_inf: return each(o, output, n, [](T, T, T) { return 0; });
    case Pointwise::logical_not: return each(o, output, n, [](T v, T, T) { return v == 0; });
    case Pointwise::bit_not: return each(o, output, n, [](T v, T, T) { return ~v; });
    case Pointwise::floor:
    case Pointwise::ceil:
    case Pointwise::round:
    case Pointwise::identity: return each(o, output, n, [](T v, T, T) { return v; });
    case Pointwise::add: return each(o, output, n, [](T v, T x, T) { return bits(v) + bits(x); });
    case Pointwise::sub: return each(o, output, n, [](T v, T x, T) { return bits(v) - bits(x); });
    case Pointwise::mul: return each(o, output, n, [](T v, T x, T) { return bits(v) * bits(x); });
    case Pointwise::div: return each(o, output, n, [](T v, T x, T) { return quotient(v, x); });
    case Pointwise::pow: return each(o, output, n, [](T v, T x, T) { return power(v, x); });
    case Pointwise::min: return each(o, output, n, [](T v, T x, T) { return v < x ? v : x; });
    case Pointwise::max: return each(o, output, n, [](T v, T x, T) { return v > x ? v : x; });
    case Pointwise::mod: return each(o, output, n, [](T v, T x, T) { return modulo(v, x); });
    case Pointwise::fmod: return each(o, output, n, [](T v, T x, T) { return remainder(v, x); });
    case Pointwise::prelu: return each(o, output, n, [](T v, T x, T) { return v < 0 ? bits(v) * bits(x) : bits(v); });
    case Pointwise::thresholded_relu: return each(o, output, n, [](T v, T x, T) { return v > x ? v : T{0}; });
    case Pointwise::equal: return each(o, output, n, [](T v, T x, T) { return v == x; });
    case Pointwise::less: return each(o, output, n, [](T v, T x, T) { return v < x; });
    case Pointwise::less_equal: return each(o, output, n, [](T v, T x, T) { return v <= x; });
    case Pointwise::greater: return each(o, output, n, [](T v, T x, T) { return v > x; });
    case Pointwise::greater_equal: return each(o, output, n, [](T v, T x, T) { return v >= x; });
    case Pointwise::logical_and: return each(o, output, n, [](T v, T x, T) { return v != 0 && x != 0; });
    case Pointwise::logical_or: return each(o, output, n, [](T v, T x, T) { return v != 0 || x != 0; });
    case Pointwise::logical_xor: return each(o, output, n, [](T v, T x, T) { return (v != 0) != (x != 0); });
    case Pointwise::bit_and: return each(o, output, n, [](T v, T x, T) { return v & x; });
    case Pointwise::bit_or: return each(o, output, n, [](T v, T x, T) { return v | x; });
    case Pointwise::bit_xor: return each(o, output, n, [](T v, T x, T) { return v ^ x; });
    case Pointwise::shift_left: return each(o, output, n, [](T v, T x, T) { return shifted_left(v, x); });
    case Pointwise::shift_right: return each(o, output, n, [](T v, T x, T) { return shifted_right(v, x); });
    case Pointwise::clip: return each(o, output, n, [](T v, T x, T y) { return clipped(v, x, y); });
    case Pointwise::where: return each(o, output, n, [](T v, T x, T y) { return v != 0 ? x : y; });
    default: return;
  }
}
// clang-format on

template void apply_whole(Pointwise, const StepOperands<std::int64_t>&, std::int64_t*, std::int64_t);
template void apply_whole(Pointwise, const StepOperands<std::uint64_t>&, std::uint64_t*, std::int64_t);

}  // namespace lamina::cpu
