#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace lamina::detail {

/// a / b rounded up, for b > 0. Nothing overflows, however large b is.
template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return static_cast<T>(a / b + (a % b > 0 ? 1 : 0));
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

/// The product of numbers that are 0 or more, or nothing if it is more than `most`.
constexpr std::optional<std::int64_t> product_up_to(std::int64_t most, std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    const auto next = checked_mul(product, factor);
    if (!next || *next > most) return std::nullopt;
    product = *next;
  }
  return product;
}

}  // namespace lamina::detail
