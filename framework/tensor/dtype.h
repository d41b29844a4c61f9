#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <type_traits>

#include "lamina/base/export.h"

namespace lamina {

/// Element types a Tensor can hold; docs/inside/ops.md says which ops compute in which.
enum class DType : std::uint8_t { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

/// What an element type is: a row.
struct ElementType {
  std::string_view name;  ///< "f32", "bf16", "bool", ...
  std::size_t bytes;
  bool floating = false;
};

/// In the order of DType.
inline constexpr ElementType element_types[] = {
    {"bool", 1}, {"u8", 1},  {"i8", 1},        {"u16", 2},        {"i16", 2},       {"u32", 4},      {"i32", 4},
    {"u64", 8},  {"i64", 8}, {"f16", 2, true}, {"bf16", 2, true}, {"f32", 4, true}, {"f64", 8, true}};

constexpr const ElementType& element_type(DType dtype) { return element_types[static_cast<std::size_t>(dtype)]; }
/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) { return element_type(dtype).bytes; }
constexpr std::string_view name(DType dtype) { return element_type(dtype).name; }
constexpr bool is_float(DType dtype) { return element_type(dtype).floating; }
/// What values of f32 may be stored as between a Plan's steps: floats of 32 bits or fewer.
constexpr bool is_activation(DType dtype) { return is_float(dtype) && size_of(dtype) <= size_of(DType::f32); }

LAMINA_API std::ostream& operator<<(std::ostream& out, DType dtype);

/// The DType of that name, or nothing.
LAMINA_API std::optional<DType> find_dtype(std::string_view name);

/// IEEE binary16, stored as its bits.
struct half {
  std::uint16_t bits = 0;
};

/// The upper half of an IEEE binary32, stored as its bits.
struct bfloat16 {
  std::uint16_t bits = 0;
};

/// Exact.
LAMINA_API float to_float(half value);

namespace detail {
/// One of two by masks. Where all cases are computed and one is taken, without branches, loops over many values are
/// vectorised.
constexpr std::uint32_t take(bool this_one, std::uint32_t one, std::uint32_t other) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(this_one);
  return (one & mask) | (other & ~mask);
}
}  // namespace detail

/// Rounds to nearest, ties to even; beyond the range gives infinity; NaN stays NaN.
inline half to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const std::uint32_t odd = (magnitude >> 13) & 1u;  // ties go to even
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  // Below 2^-14: adding 0.5 lets the FPU round the value to a multiple of 2^-24, to nearest even.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t rounded = detail::take(magnitude < 0x38800000u, subnormal, normal);
  rounded = detail::take(magnitude >= 0x477ff000u, 0x7c00u, rounded);  // 65520 and above: infinity
  rounded = detail::take(magnitude > 0x7f800000u, 0x7e00u | ((magnitude >> 13) & 0x3ffu), rounded);  // NaN, made quiet
  return {static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | rounded)};
}

/// Exact.
inline float to_float(bfloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline bfloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), odd = (bits >> 16) & 1u;  // ties go to even
  const std::uint32_t rounded = (bits + 0x7fffu + odd) >> 16, quiet = (bits >> 16) | 0x40u;
  return {static_cast<std::uint16_t>(detail::take((bits & 0x7fffffffu) > 0x7f800000u, quiet, rounded))};
}

namespace detail {
template <class... T>
struct Types {};

/// The C++ types that store elements, in the order of DType.
using StoredTypes = Types<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                          std::uint64_t, std::int64_t, half, bfloat16, float, double>;

template <class T, class... All>
constexpr DType place_of(Types<All...>) {
  static_assert((std::is_same_v<T, All> || ...), "no DType stores this type");
  std::uint8_t place = 0;
  (void)((std::is_same_v<T, All> || (++place, false)) || ...);
  return static_cast<DType>(place);
}
}  // namespace detail

/// The DType that stores C++ type T.
template <class T>
inline constexpr DType dtype_of = detail::place_of<T>(detail::StoredTypes());

}  // namespace lamina
