#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/in_parallel.h"
#include "lamina/tensor/tensor.h"
#include "lamina/tensor/visit.h"

namespace lamina {
namespace {

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

template <class T>
inline constexpr bool is_whole = std::is_integral_v<T>;

template <class To, class From>
To to_integer(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_integral_v<From>) {
    if constexpr (std::is_same_v<From, bool>) {
      return static_cast<To>(value);
    } else {
      if (!std::in_range<To>(value)) detail::fail("cannot store ", +value, " as ", dtype_of<To>);
      return static_cast<To>(value);
    }
  } else {
    // 2^digits is the first float past the largest To, and exact, unlike the largest To itself.
    const From limit = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    const From lowest = std::is_signed_v<To> ? -limit : From{0};
    if (!(value >= lowest && value < limit) || value != std::trunc(value)) {
      detail::fail("cannot store ", value, " as ", dtype_of<To>);
    }
    return static_cast<To>(value);
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (is_small_float<From>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (is_whole<To>) {
    return to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Elements that one thread converts at a time: enough to make starting a thread worth while.
constexpr std::size_t piece = std::size_t{1} << 20;

template <class To, class From>
void convert_all(std::span<const From> from, std::span<To> to) {
  const auto convert_range = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
  };
  if constexpr (is_whole<To>) {
    convert_range(0, from.size());  // may throw, and must then name the first element that does not fit
  } else {
    detail::in_parallel(from.size(), piece, convert_range);
  }
}

}  // namespace

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (!device_.is_cpu()) return to(Device::cpu()).to(dtype).to(device_);
  Tensor result(shape_, dtype);
  detail::visit(dtype_, [&]<class From>(std::type_identity<From>) {
    detail::visit(dtype, [&]<class To>(std::type_identity<To>) { convert_all(values<From>(), result.values<To>()); });
  });
  return result;
}

}  // namespace lamina
