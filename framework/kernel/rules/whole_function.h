#pragma once

#include <cstdint>
#include <type_traits>

#include "lamina/kernel/pointwise.h"

namespace lamina::detail {

/// What a function computes of whole numbers, std::int64_t, std::uint64_t or std::uint8_t, on every device. Sums and
/// products wrap around; a division by 0 gives 0, and none traps.
template <class T>
constexpr T whole_function(Pointwise function, T v, T x, T y) {
  using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const U a = static_cast<U>(v), b = static_cast<U>(x);
  const bool minus_one = std::is_signed_v<T> && b == ~U{0};  // the divisor whose quotient may not be representable
  const auto negative = [](T number) { return std::is_signed_v<T> && static_cast<std::int64_t>(number) < 0; };
  switch (function) {
    case Pointwise::relu: return negative(v) ? T{0} : v;
    case Pointwise::abs: return negative(v) ? static_cast<T>(0 - a) : v;
    case Pointwise::neg: return static_cast<T>(0 - a);
    case Pointwise::sign: return static_cast<T>((v != 0 && !negative(v)) - negative(v));
    case Pointwise::is_nan:
    case Pointwise::is_inf: return 0;
    case Pointwise::logical_not: return v == 0;
    case Pointwise::bit_not: return static_cast<T>(~v);
    case Pointwise::add: return static_cast<T>(a + b);
    case Pointwise::sub: return static_cast<T>(a - b);
    case Pointwise::mul: return static_cast<T>(a * b);
    case Pointwise::div: return minus_one ? static_cast<T>(0 - a) : x == 0 ? T{0} : static_cast<T>(v / x);
    case Pointwise::pow: {  // by squaring; 1 / v^-x towards zero if the exponent is negative
      if (negative(x)) return v == 1 ? T{1} : a == ~U{0} ? (b % 2 == 0 ? T{1} : v) : T{0};
      U result = 1, base = a;
      for (U exponent = b; exponent != 0; exponent >>= 1) {
        if (exponent & 1u) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    }
    case Pointwise::min: return v < x ? v : x;
    case Pointwise::max: return v > x ? v : x;
    case Pointwise::mod: {  // with the divisor's sign, as Python's
      const T rest = x == 0 || minus_one ? T{0} : static_cast<T>(v % x);
      return rest != 0 && negative(rest) != negative(x) ? static_cast<T>(rest + x) : rest;
    }
    case Pointwise::fmod: return x == 0 || minus_one ? T{0} : static_cast<T>(v % x);  // with the dividend's, as C's
    case Pointwise::prelu: return negative(v) ? static_cast<T>(a * b) : v;
    case Pointwise::thresholded_relu: return v > x ? v : T{0};
    case Pointwise::equal: return v == x;
    case Pointwise::less: return v < x;
    case Pointwise::less_equal: return v <= x;
    case Pointwise::greater: return v > x;
    case Pointwise::greater_equal: return v >= x;
    case Pointwise::logical_and: return v != 0 && x != 0;
    case Pointwise::logical_or: return v != 0 || x != 0;
    case Pointwise::logical_xor: return (v != 0) != (x != 0);
    case Pointwise::bit_and: return static_cast<T>(v & x);
    case Pointwise::bit_or: return static_cast<T>(v | x);
    case Pointwise::bit_xor: return static_cast<T>(v ^ x);
    case Pointwise::shift_left: return b < 8 * sizeof(U) ? static_cast<T>(a << b) : T{0};
    case Pointwise::shift_right: return b < 8 * sizeof(U) ? static_cast<T>(v >> b) : T{0};
    case Pointwise::clip: {
      const T above = v < x ? x : v;
      return above > y ? y : above;
    }
    case Pointwise::where: return v != 0 ? x : y;
    default: return v;  // what is done to fractions
  }
}

}  // namespace lamina::detail
