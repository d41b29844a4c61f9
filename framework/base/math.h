#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lamina::detail {

template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <std::integral T>
constexpr T round_up(T value, T multiple) {
  return ceil_div(value, multiple) * multiple;
}

/// a * b, or nothing if it does not fit. Sizes that come from files go through here.
template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace lamina::detail
