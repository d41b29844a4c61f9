#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/eight_bits/codes.h"
#include "lamina/cuda/elements.cuh"

/// Numbers of u8 and i8 that stand for others (docs/inside/precision.md), with the bits of cpu/codes.h: every operation
/// is one of f32, rounded once, and nvcc fuses none of them with another.
namespace lamina::cuda {

/// A number that is a multiple of how many neighbours one access may have; of floats even four are 16 bytes.
inline std::uint64_t neighbours_of(const void* memory, DType dtype) {
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory));
  return size_of(dtype) == 1 ? address : static_cast<std::uint64_t>(address % 16 != 0);
}

/// n floats of a type, or codes, from `memory` on.
template <int n, class T>
__device__ inline void read_values(const T* memory, const Meaning& meaning, float (&values)[n]) {
  constexpr bool codes = std::is_same_v<T, std::uint8_t>;
  const auto all = *reinterpret_cast<const std::conditional_t<codes, Codes<n>, Neighbouring<T, n>>*>(memory);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if constexpr (codes) values[j] = meaning(all.values[j / 4], j % 4);
    if constexpr (!codes) values[j] = to_f32(all.values[j]);
  }
}
template <int n, class T>
__device__ inline void write_floats(const float (&values)[n], T* memory) {
  Neighbouring<T, n> all;
#pragma unroll
  for (int j = 0; j < n; ++j) all.values[j] = from_f32<T>(values[j]);
  *reinterpret_cast<Neighbouring<T, n>*>(memory) = all;
}

template <bool divide, int n>
__device__ Codes<n> Results::codes(const float (&values)[n]) const {
  Codes<n> all;
  if constexpr (n == 1) {
    all.values[0] = static_cast<std::uint8_t>(code<divide>(values[0]));
  } else {
#pragma unroll
    for (int j = 0; j < n; j += 4) {
      const auto two = [&](int i) {
        return __byte_perm(code<divide>(values[i]), code<divide>(values[i + 1]), 0x0040u);
      };
      all.values[j / 4] = __byte_perm(two(j), two(j + 2), 0x5410u);
    }
  }
  return all;
}

template <int n>
__device__ void Results::write(const float (&values)[n], void* memory, std::int64_t at) const {
  switch (dtype) {
    case DType::f32: return write_floats(values, static_cast<float*>(memory) + at);
    case DType::f16: return write_floats(values, static_cast<__half*>(memory) + at);
    case DType::bf16: return write_floats(values, static_cast<__nv_bfloat16*>(memory) + at);
    default: break;
  }
  auto& all = *reinterpret_cast<Codes<n>*>(static_cast<std::uint8_t*>(memory) + at);
  all = divides() ? codes<true>(values) : codes<false>(values);
}

}  // namespace lamina::cuda
