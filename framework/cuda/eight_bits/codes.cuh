#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/ptx/bytes.cuh"

/// Numbers of u8 and i8 that stand for others (docs/inside/precision.md), with the bits of cpu/codes.h: every operation
/// is one of f32, rounded once, and nvcc fuses none of them with another.
namespace lamina::cuda {

/// n neighbours that are loaded and stored together, in accesses of at most 16 bytes.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Neighbouring {
  T values[n];
};
/// Codes go in words of four, or alone.
template <int n>
using Codes = Neighbouring<std::conditional_t<n == 1, std::uint8_t, std::uint32_t>, (n + 3) / 4>;

struct Meaning : Reading {
  using Reading::Reading;
  Meaning() = default;
  __host__ __device__ explicit Meaning(const Reading& reading) : Reading(reading) {}

  /// Of byte j of a word. A byte at the end of 2^23 is added to it, and the difference is exact: no conversion, of
  /// which a multiprocessor does but a few at a time.
  __device__ float operator()(std::uint32_t word, int j) const {
    const float code = __uint_as_float(__byte_perm(word ^ flip, 0x4b000000u, 0x7540u + static_cast<unsigned>(j)));
    return __fmul_rn(__fsub_rn(code, zero), scale);
  }
};

/// Four codes, each times a number: nearly five instructions each. Two sums of 2^23 and a product are clamped at a
/// time, as the whole numbers that their lower halves are.
__device__ __forceinline__ std::uint32_t multiplied(const Multiplier& by, std::uint32_t four, const float4& factors) {
  const auto at = [&](unsigned j, float factor) {
    const float code = __uint_as_float(__byte_perm(four ^ by.image.flip, 0x4b000000u, 0x7540u + j));
    return __float_as_uint(__fmaf_rn(__fsub_rn(code, by.image.zero), factor, 12582912.0f));
  };
  const auto two = [&](std::uint32_t a, std::uint32_t b) {
    return __viaddmin_s16x2_relu(__byte_perm(a, b, 0x5410), by.zero, 0x00ff00ffu);
  };
  const std::uint32_t low = two(at(0, factors.x), at(1, factors.y)), high = two(at(2, factors.z), at(3, factors.w));
  return __byte_perm(low, high, 0x6420) ^ by.image.flip;
}

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

/// Scales of ordinary size are not divided by: the quotient by way of
/// 1 / scale in two words is one of the two floats beside the true one, and the remainder, which is exact, tells which
/// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; Brisebarre, Muller
/// and Raina, "Accelerating correctly rounded floating-point division when the divisor is known in advance", 2004):
/// four operations.
struct Results : Rounding {
  using Rounding::Rounding;
  __host__ __device__ explicit Results(const Rounding& rounding) : Rounding(rounding) {}

  __host__ __device__ bool divides() const { return inverse == 0; }

  /// In the lowest byte: what is added last has a last digit of 1.
  template <bool divide>
  __device__ std::uint32_t code(float x) const {
    const float there = fminf(fmaxf(divide ? __fdiv_rn(x, scale) : x, low), high);  // NaN to low
    float q = there;
    if constexpr (!divide) {
      q = __fmaf_rn(there, inverse, __fmul_rn(there, rest));
      q = __fmaf_rn(__fmaf_rn(-q, scale, there), inverse, q);
    }
    return __float_as_uint(__fadd_rn(q, 12582912.0f)) + static_cast<std::uint32_t>(zero);
  }

  template <bool divide, int n>
  __device__ Codes<n> codes(const float (&values)[n]) const {
    Codes<n> all;
    if constexpr (n == 1) {
      all.values[0] = static_cast<std::uint8_t>(code<divide>(values[0]));
    } else {
#pragma unroll
      for (int j = 0; j < n; j += 4) {
        const auto at = [&](int i) { return code<divide>(values[j + i]); };
        all.values[j / 4] = ptx::lowest_bytes(at(0), at(1), at(2), at(3));
      }
    }
    return all;
  }

  /// n neighbours from element `at` on.
  template <int n>
  __device__ void write(const float (&values)[n], void* memory, std::int64_t at) const {
    switch (dtype) {
      case DType::f32: return write_floats(values, static_cast<float*>(memory) + at);
      case DType::f16: return write_floats(values, static_cast<__half*>(memory) + at);
      case DType::bf16: return write_floats(values, static_cast<__nv_bfloat16*>(memory) + at);
      default: break;
    }
    auto& all = *reinterpret_cast<Codes<n>*>(static_cast<std::uint8_t*>(memory) + at);
    all = divides() ? codes<true>(values) : codes<false>(values);
  }
};

}  // namespace lamina::cuda
