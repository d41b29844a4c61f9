#include "lamina/cpu/array/blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "lamina/cpu/array/pointwise.h"
#include "lamina/tensor/visit.h"
#include "lamina/tensor/words.h"

namespace lamina::cpu {
namespace {

/// Towards zero, to the nearest that there is, NaN to 0; without branches, so that loops are vectorised.
template <std::integral To, std::floating_point From>
To to_whole(From value) {
  if constexpr (sizeof(To) > sizeof(From)) return to_whole<To>(static_cast<double>(value));  // elements of one size
  constexpr auto low = static_cast<From>(std::numeric_limits<To>::min());
  // 2^digits is the first float past the largest To, and exact, unlike the largest To itself.
  constexpr From past = From{2} * static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1));
  const From number = value == value ? value : From{0}, above = number < low ? low : number;
  if constexpr (sizeof(To) < sizeof(From)) {
    constexpr auto high = static_cast<From>(std::numeric_limits<To>::max());
    return static_cast<To>(
        static_cast<std::conditional_t<sizeof(From) == 8, std::int64_t, std::int32_t>>(above > high ? high : above));
  } else {
    const To whole = static_cast<To>(above < past ? above : From{0});
    return above < past ? whole : std::numeric_limits<To>::max();
  }
}

/// A float that rounds to any shorter one as `value` does: what is cut off leaves a last bit of 1.
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto exact = static_cast<double>(nearest);
  if (exact == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(exact) > std::abs(value)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1u);
}

/// The same of whole numbers. A double holds 53 bits of them; the twelve below the top 52 become one.
float rounded_to_odd(std::uint64_t value) {
  if (value >> 53 != 0) value = (value >> 12 | static_cast<std::uint64_t>((value & 4095u) != 0)) << 12;
  return rounded_to_odd(static_cast<double>(value));
}
float rounded_to_odd(std::int64_t value) {
  return value < 0 ? -rounded_to_odd(0 - static_cast<std::uint64_t>(value))
                   : rounded_to_odd(static_cast<std::uint64_t>(value));
}
float rounded_to_odd(std::uint8_t value) { return value; }
float rounded_to_odd(float value) { return value; }

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<From, half> || std::is_same_v<From, bfloat16>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, half>) {
    return to_half(rounded_to_odd(value));
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return to_bfloat16(rounded_to_odd(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return to_whole<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
[[gnu::flatten]] void convert_all(const From* from, To* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
}

/// As many elements as a vector of 16 bytes has of as many rows, which swap places with the columns: pairs of vectors
/// half of them apart are interleaved once for each bit of an element's place.
template <class T, std::size_t... i>
void turn_square(const T* from, std::int64_t from_pitch, T* to, std::int64_t to_pitch, std::index_sequence<i...>) {
  using Vector [[gnu::vector_size(16)]] = T;
  constexpr std::size_t n = sizeof...(i), half = n / 2;
  Vector x[n], y[n];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < n; ++r) std::memcpy(&x[r], from + static_cast<std::int64_t>(r) * from_pitch, sizeof x[r]);
#pragma GCC unroll 4
  for (std::size_t bit = 1; bit < n; bit *= 2) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < half; ++r) {
      y[2 * r] = __builtin_shufflevector(x[r], x[r + half], (i / 2 + i % 2 * n)...);
      y[2 * r + 1] = __builtin_shufflevector(x[r], x[r + half], (half + i / 2 + i % 2 * n)...);
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < n; ++r) x[r] = y[r];
  }
#pragma GCC unroll 16
  for (std::size_t c = 0; c < n; ++c) std::memcpy(to + static_cast<std::int64_t>(c) * to_pitch, &x[c], sizeof x[c]);
}

}  // namespace

void turn(const std::byte* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, std::byte* to,
          std::int64_t to_pitch, std::size_t size) {
  detail::with_word(size, [=]<class T>(T) {
    constexpr std::int64_t n = 16 / sizeof(T);
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    const std::int64_t down = rows / n * n, across = columns / n * n;
    const bool along = from_pitch > 4 * to_pitch;  // few of the lines that lie far apart at a time
    for (std::int64_t i = 0; i < (along ? down : across); i += n) {
      for (std::int64_t j = 0; j < (along ? across : down); j += n) {
        const std::int64_t r = along ? i : j, c = along ? j : i;
        turn_square(source + r * from_pitch + c, from_pitch, target + c * to_pitch + r, to_pitch,
                    std::make_index_sequence<static_cast<std::size_t>(n)>());
      }
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = c < across ? down : 0; r < rows; ++r) target[c * to_pitch + r] = source[r * from_pitch + c];
    }
  });
}

void gather(const std::byte* from, std::int64_t stride, std::int64_t count, std::size_t size, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  detail::with_word(size, [=]<class T>(T) {
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    if (stride == 0) {
      std::fill_n(target, count, *source);
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * stride];
    }
  });
}

void gather(const std::byte* from, const std::int64_t* places, std::int64_t count, std::size_t size, std::uint64_t fill,
            std::byte* to) {
  detail::with_word(size, [=]<class T>(T) {
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    for (std::int64_t i = 0; i < count; ++i) target[i] = places[i] < 0 ? static_cast<T>(fill) : source[places[i]];
  });
}

/// Run by run along the innermost axis.
void gather(std::span<const detail::WalkAxis> axes, std::size_t array, const std::byte* from, std::int64_t first,
            std::int64_t count, std::size_t size, std::byte* to) {
  const std::size_t last = axes.size() - 1;
  const std::int64_t stride = axes[last].strides[array];
  std::array<std::int64_t, Shape::max_rank> at{};
  std::int64_t rest = first, offset = 0;
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    at[axis] = rest % axes[axis].extent;
    rest /= axes[axis].extent;
    offset += at[axis] * axes[axis].strides[array];
  }
  while (true) {
    const std::int64_t run = std::min(count, axes[last].extent - at[last]);
    gather(from + offset * static_cast<std::int64_t>(size), stride, run, size, to);
    to += static_cast<std::size_t>(run) * size;
    count -= run;
    if (count == 0) return;
    offset -= at[last] * stride;
    at[last] = 0;
    for (std::size_t axis = last; axis-- > 0;) {
      offset += axes[axis].strides[array];
      if (++at[axis] < axes[axis].extent) break;
      offset -= at[axis] * axes[axis].strides[array];
      at[axis] = 0;
    }
  }
}

template <class T>
void load(DType dtype, const void* from, T* to, std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    const ApplyKernel& kernel = apply_kernels().front();
    if (dtype == DType::bf16) return kernel.widen(static_cast<const bfloat16*>(from), to, count);
    if (dtype == DType::f16 && kernel.widen_half != nullptr) {
      return kernel.widen_half(static_cast<const half*>(from), to, count);
    }
  }
  if (dtype == DType::boolean) {  // whose bytes may be any that are not 0
    const auto* source = static_cast<const std::uint8_t*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(source[i] != 0);
    return;
  }
  detail::visit(dtype,
                [=]<class From>(std::type_identity<From>) { convert_all(static_cast<const From*>(from), to, count); });
}

template <class T>
void store(DType dtype, const T* from, void* to, std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    const ApplyKernel& kernel = apply_kernels().front();
    if (dtype == DType::bf16) return kernel.narrow(from, static_cast<bfloat16*>(to), count);
    if (dtype == DType::f16 && kernel.narrow_half != nullptr) {
      return kernel.narrow_half(from, static_cast<half*>(to), count);
    }
  }
  if (dtype == DType::boolean) {
    auto* target = static_cast<std::uint8_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) target[i] = from[i] != T{0};
    return;
  }
  detail::visit(dtype, [=]<class To>(std::type_identity<To>) { convert_all(from, static_cast<To*>(to), count); });
}

// clang-format off
template void load(DType, const void*, float*, std::int64_t);
template void load(DType, const void*, double*, std::int64_t);
template void load(DType, const void*, std::uint8_t*, std::int64_t);
template void load(DType, const void*, std::int64_t*, std::int64_t);
template void load(DType, const void*, std::uint64_t*, std::int64_t);
template void store(DType, const float*, void*, std::int64_t);
template void store(DType, const double*, void*, std::int64_t);
template void store(DType, const std::uint8_t*, void*, std::int64_t);
template void store(DType, const std::int64_t*, void*, std::int64_t);
template void store(DType, const std::uint64_t*, void*, std::int64_t);
// clang-format on

}  // namespace lamina::cpu
