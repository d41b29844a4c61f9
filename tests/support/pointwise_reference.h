#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "lamina/kernel/pointwise.h"

/// What the functions of kernel/pointwise.h are, as plainly as can be said.
namespace lamina::test {

inline double reference(Pointwise f, double v, double x, double y) {
  const auto least = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b); };
  const auto most = [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b); };
  const auto sigmoid = [](double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); };
  const auto softplus = [](double a) {
    return std::isnan(a) ? a : std::fmax(a, 0.0) + std::log1p(std::exp(-std::fabs(a)));
  };
  const double pi = 3.14159265358979323846;
  switch (f) {
    case Pointwise::relu: return most(v, 0);
    case Pointwise::sigmoid: return sigmoid(v);
    case Pointwise::tanh: return std::tanh(v);
    case Pointwise::exp: return std::exp(v);
    case Pointwise::log: return std::log(v);
    case Pointwise::sqrt: return std::sqrt(v);
    case Pointwise::rsqrt: return 1 / std::sqrt(v);
    case Pointwise::reciprocal: return 1 / v;
    case Pointwise::abs: return std::fabs(v);
    case Pointwise::neg: return -v;
    case Pointwise::sign: return std::isnan(v) ? v : static_cast<double>((v > 0) - (v < 0));
    case Pointwise::erf: return std::erf(v);
    case Pointwise::floor: return std::floor(v);
    case Pointwise::ceil: return std::ceil(v);
    case Pointwise::round: return std::nearbyint(v);
    case Pointwise::silu: return v * sigmoid(v);
    case Pointwise::mish: {
      if (v >= 0) return v * std::tanh(softplus(v));
      const double e = std::exp(v), n = e * (e + 2);
      return v * (n / (n + 2));
    }
    case Pointwise::gelu: return 0.5 * v * std::erfc(-v / std::sqrt(2.0));
    case Pointwise::gelu_tanh: return v * sigmoid(2 * std::sqrt(2 / pi) * (v + 0.044715 * v * v * v));
    case Pointwise::softplus: return softplus(v);
    case Pointwise::softsign: return v / (1 + std::fabs(v));
    case Pointwise::hard_swish: return v * most(0, least(1, v / 6 + 0.5));
    case Pointwise::sin: return std::sin(v);
    case Pointwise::cos: return std::cos(v);
    case Pointwise::tan: return std::tan(v);
    case Pointwise::asin: return std::asin(v);
    case Pointwise::acos: return std::acos(v);
    case Pointwise::atan: return std::atan(v);
    case Pointwise::sinh: return std::sinh(v);
    case Pointwise::cosh: return std::cosh(v);
    case Pointwise::asinh: return std::asinh(v);
    case Pointwise::acosh: return std::acosh(v);
    case Pointwise::atanh: return std::atanh(v);
    case Pointwise::is_nan: return std::isnan(v);
    case Pointwise::logical_not: return v == 0;
    case Pointwise::identity: return v;
    case Pointwise::add: return v + x;
    case Pointwise::sub: return v - x;
    case Pointwise::mul: return v * x;
    case Pointwise::div: return v / x;
    case Pointwise::pow: return std::pow(v, x);
    case Pointwise::min: return least(v, x);
    case Pointwise::max: return most(v, x);
    case Pointwise::mod: {
      const double rest = std::fmod(v, x);
      return rest != 0 && std::signbit(rest) != std::signbit(x) ? rest + x : rest;
    }
    case Pointwise::fmod: return std::fmod(v, x);
    case Pointwise::prelu: return v < 0 ? v * x : v;
    case Pointwise::elu: return v > 0 ? v : x * std::expm1(v);
    case Pointwise::celu: return v > 0 ? v : x * std::expm1(v / x);
    case Pointwise::thresholded_relu: return v > x || std::isnan(v) || std::isnan(x) ? v : 0;
    case Pointwise::equal: return v == x;
    case Pointwise::less: return v < x;
    case Pointwise::less_equal: return v <= x;
    case Pointwise::greater: return v > x;
    case Pointwise::greater_equal: return v >= x;
    case Pointwise::logical_and: return v != 0 && x != 0;
    case Pointwise::logical_or: return v != 0 || x != 0;
    case Pointwise::logical_xor: return (v != 0) != (x != 0);
    case Pointwise::clip: return least(most(v, x), y);
    case Pointwise::where: return v != 0 ? x : y;
    case Pointwise::hard_sigmoid: return most(0, least(1, x * v + y));
    case Pointwise::selu: return y * (v > 0 ? v : x * std::expm1(v));
    case Pointwise::shrink: return v < -y ? v + x : v > y ? v - x : std::isnan(v) ? v : 0;
    case Pointwise::is_inf: return std::isinf(v) && (v < 0 ? x : y) != 0;
    case Pointwise::quantize: {
      const double q = std::rint(v / x) + y;
      return std::isnan(q) ? -std::numeric_limits<double>::infinity() : q;
    }
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

/// Of whole numbers of 64 bits; nothing if the function has no meaning for them.
template <class T>
std::optional<T> find_whole_reference(Pointwise f, T v, T x, T y) {
  __extension__ using Wide = __int128;
  const Wide a = v, b = x;
  const auto cut = [](Wide wide) { return static_cast<T>(static_cast<std::uint64_t>(wide)); };
  switch (f) {
    case Pointwise::relu: return cut(a < 0 ? 0 : a);
    case Pointwise::abs: return cut(a < 0 ? -a : a);
    case Pointwise::neg: return cut(-a);
    case Pointwise::sign: return cut((a > 0) - (a < 0));
    case Pointwise::is_nan:
    case Pointwise::is_inf: return T{0};
    case Pointwise::logical_not: return cut(a == 0);
    case Pointwise::bit_not: return cut(~a);
    case Pointwise::floor:
    case Pointwise::ceil:
    case Pointwise::round:
    case Pointwise::identity: return v;
    case Pointwise::add: return cut(a + b);
    case Pointwise::sub: return cut(a - b);
    case Pointwise::mul: return static_cast<T>(static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(x));
    case Pointwise::div: return b == 0 ? T{0} : cut(a / b);
    case Pointwise::pow: {
      if (b < 0) return a == 1 ? T{1} : a == -1 ? cut(b % 2 == 0 ? 1 : -1) : T{0};
      if (b > 4096) {  // even numbers are 0 by then; of odd ones the powers of 2^63 - 1 bits repeat
        std::uint64_t result = 1, base = static_cast<std::uint64_t>(v);
        for (int bit = 0; bit < 64; ++bit, base *= base) {
          if (static_cast<std::uint64_t>(x) >> bit & 1) result *= base;
        }
        return static_cast<T>(result);
      }
      std::uint64_t result = 1;
      for (Wide i = 0; i < b; ++i) result *= static_cast<std::uint64_t>(v);
      return static_cast<T>(result);
    }
    case Pointwise::min: return v < x ? v : x;
    case Pointwise::max: return v > x ? v : x;
    case Pointwise::mod: return b == 0 ? T{0} : cut((a % b + b) % b);
    case Pointwise::fmod: return b == 0 ? T{0} : cut(a % b);
    case Pointwise::prelu:
      return a < 0 ? static_cast<T>(static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(x)) : v;
    case Pointwise::thresholded_relu: return v > x ? v : T{0};
    case Pointwise::equal: return cut(a == b);
    case Pointwise::less: return cut(a < b);
    case Pointwise::less_equal: return cut(a <= b);
    case Pointwise::greater: return cut(a > b);
    case Pointwise::greater_equal: return cut(a >= b);
    case Pointwise::logical_and: return cut(a != 0 && b != 0);
    case Pointwise::logical_or: return cut(a != 0 || b != 0);
    case Pointwise::logical_xor: return cut((a != 0) != (b != 0));
    case Pointwise::bit_and: return v & x;
    case Pointwise::bit_or: return v | x;
    case Pointwise::bit_xor: return v ^ x;
    case Pointwise::shift_left: return b < 0 || b >= 64 ? T{0} : static_cast<T>(static_cast<std::uint64_t>(v) << x);
    case Pointwise::shift_right: return b < 0 || b >= 64 ? T{0} : static_cast<T>(v >> x);
    case Pointwise::clip: return std::min(std::max(v, x), y);
    case Pointwise::where: return a != 0 ? x : y;
    default: return std::nullopt;
  }
}
inline bool has_whole_reference(Pointwise f) { return find_whole_reference<std::int64_t>(f, 1, 1, 1).has_value(); }
template <class T>
T whole_reference(Pointwise f, T v, T x, T y) {
  return *find_whole_reference(f, v, x, y);
}

}  // namespace lamina::test
