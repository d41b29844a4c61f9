#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "lamina/cuda/elements.cuh"
#include "lamina/tensor/dtype.h"

/// Elements of any dtype, which the kernel learns as it runs, to and from the types that are computed in: float,
/// double, int64_t and uint64_t. Conversions are those of PointwiseProblem. All threads branch alike.
namespace lamina::cuda {

/// Towards zero, to the nearest that there is, NaN to 0.
template <class To, class From>
__device__ inline To to_whole(From value) {
  constexpr std::uint64_t half = std::uint64_t{1} << (std::numeric_limits<To>::digits - 1);
  constexpr To most = static_cast<To>(half - 1 + half), least = std::is_signed_v<To> ? -most - 1 : 0;
  // The first float past the largest To, and exact, unlike the largest To itself.
  constexpr From limit = static_cast<From>(half) * 2, lowest = std::is_signed_v<To> ? -limit : From{0};
  if (!(value < limit)) return value >= limit ? most : To{0};
  return value <= lowest ? least : static_cast<To>(value);
}

/// A float that rounds to any shorter one as `value` does: what is cut off leaves a last bit of 1.
__device__ inline float with_sticky_bit(float cut, bool exact) {
  return exact ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}
__device__ inline float rounded_to_odd(float value) { return value; }
__device__ inline float rounded_to_odd(double value) {
  const float cut = __double2float_rz(value);
  return with_sticky_bit(cut, static_cast<double>(cut) == value);
}
__device__ inline float rounded_to_odd(std::int64_t value) {
  const float cut = __ll2float_rz(value);
  return with_sticky_bit(cut, __float2ll_rz(cut) == value);
}
__device__ inline float rounded_to_odd(std::uint64_t value) {
  const float cut = __ull2float_rz(value);
  return with_sticky_bit(cut, __float2ull_rz(cut) == value);
}

/// A byte that is a truth value: 0, or anything else.
struct Boolean {
  std::uint8_t byte;
};

template <class To, class From>
__device__ inline To cast(From value) {
  if constexpr (std::is_same_v<From, Boolean>) {
    return static_cast<To>(value.byte != 0);
  } else if constexpr (std::is_same_v<To, Boolean>) {
    return {static_cast<std::uint8_t>(value != From{0})};
  } else if constexpr (std::is_same_v<From, __half> || std::is_same_v<From, __nv_bfloat16>) {
    return cast<To>(to_f32(value));
  } else if constexpr (std::is_same_v<To, __half> || std::is_same_v<To, __nv_bfloat16>) {
    return from_f32<To>(rounded_to_odd(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return to_whole<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Calls f with a null pointer to the type that stores `dtype`.
template <class F>
__device__ inline void with_stored_type(DType dtype, F f) {
  switch (dtype) {
    case DType::boolean: return f(static_cast<Boolean*>(nullptr));
    case DType::u8: return f(static_cast<std::uint8_t*>(nullptr));
    case DType::i8: return f(static_cast<std::int8_t*>(nullptr));
    case DType::u16: return f(static_cast<std::uint16_t*>(nullptr));
    case DType::i16: return f(static_cast<std::int16_t*>(nullptr));
    case DType::u32: return f(static_cast<std::uint32_t*>(nullptr));
    case DType::i32: return f(static_cast<std::int32_t*>(nullptr));
    case DType::u64: return f(static_cast<std::uint64_t*>(nullptr));
    case DType::i64: return f(static_cast<std::int64_t*>(nullptr));
    case DType::f16: return f(static_cast<__half*>(nullptr));
    case DType::bf16: return f(static_cast<__nv_bfloat16*>(nullptr));
    case DType::f32: return f(static_cast<float*>(nullptr));
    case DType::f64: return f(static_cast<double*>(nullptr));
  }
}

/// n neighbours from element `offset` on, in one access of the elements' n-fold alignment (of at most 16 bytes).
template <int n, class T>
__device__ inline void load(DType dtype, const void* memory, std::int64_t offset, T (&values)[n]) {
  with_stored_type(dtype, [&]<class E>(E*) {
    constexpr int size = n * sizeof(E) > 16 ? 16 / static_cast<int>(sizeof(E)) : n;
    const auto* packs = reinterpret_cast<const Pack<E, size>*>(static_cast<const E*>(memory) + offset);
#pragma unroll
    for (int p = 0; p < n / size; ++p) {
      const Pack<E, size> pack = packs[p];
#pragma unroll
      for (int j = 0; j < size; ++j) values[p * size + j] = cast<T>(pack.values[j]);
    }
  });
}
template <int n, class T>
__device__ inline void store(DType dtype, const T (&values)[n], void* memory, std::int64_t offset) {
  with_stored_type(dtype, [&]<class E>(E*) {
    constexpr int size = n * sizeof(E) > 16 ? 16 / static_cast<int>(sizeof(E)) : n;
    auto* packs = reinterpret_cast<Pack<E, size>*>(static_cast<E*>(memory) + offset);
#pragma unroll
    for (int p = 0; p < n / size; ++p) {
      Pack<E, size> pack;
#pragma unroll
      for (int j = 0; j < size; ++j) pack.values[j] = cast<E>(values[p * size + j]);
      packs[p] = pack;
    }
  });
}

}  // namespace lamina::cuda
