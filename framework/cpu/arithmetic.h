#pragma once

#include <cstdint>
#include <type_traits>

/// What reductions put together, of any type: whole numbers wrap, of truth a sum is or and a product and, NaN stays.
namespace lamina::cpu {

template <class T>
T wrapped_sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class T>
T wrapped_product(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class T>
T greater_of(T a, T b) {
  const T one = a > b ? a : b;  // b, if either is NaN
  return a != a ? a : one;
}

template <class T>
T lesser_of(T a, T b) {
  const T one = a < b ? a : b;
  return a != a ? a : one;
}

}  // namespace lamina::cpu
