#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "lamina/cuda/conv2d/first_layer/params.h"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"

/// The four precisions as the tensor cores see them: operand type, whether inputs may be stored so (`narrow`), number
/// of products, and which values the fast path may take. Range checks compare the bits of |x|, so that NaN counts as
/// too large.
namespace lamina::cuda::first_layer {

template <Precision>
struct Mode;

/// Operands are the values rounded to f16. What overflows becomes Inf, which must not meet a padding zero.
template <>
struct Mode<Precision::fp16> {
  using Operand = __half;
  static constexpr bool narrow = true, scaled = false, split = false;
  static constexpr std::uint32_t largest = 0x477FEFFF;  // below 65520, the first to round to Inf
  static constexpr std::uint32_t smallest = 0;
};

template <>
struct Mode<Precision::bf16> {
  using Operand = __nv_bfloat16;
  static constexpr bool narrow = true, scaled = false, split = false;
  static constexpr std::uint32_t largest = 0x7F7F7FFF;
  static constexpr std::uint32_t smallest = 0;
};

/// f16 and TF32 have the same 11 significant bits; only the exponent range differs. Scaled by 128, |x| from 2^-21 to
/// 511.75 is a normal f16, rounded exactly as TF32 would, at twice the speed.
template <>
struct Mode<Precision::tf32> {
  using Operand = __half;
  static constexpr bool narrow = false, scaled = true, split = false;
  static constexpr std::uint32_t largest = 0x43FFE000;    // 511.75 * 128 = 65504
  static constexpr std::uint32_t smallest = 0x35000000;   // 2^-21 * 128 = 2^-14
  static constexpr std::uint32_t small_operand = 0x1C01;  // f16 bits behind those of 64 * smallest * 128 = 2^-8
};

/// 128 x = high + residual / 2048, both f16: |x| from 2^-23 up is represented within 2^-20 of itself, from 2^-21 up
/// within 2^-22. Three products (high high, high residual, residual high) leave out 2^-22 of each |w x|.
template <>
struct Mode<Precision::fp32> {
  using Operand = __half;
  static constexpr bool narrow = false, scaled = true, split = true;
  static constexpr std::uint32_t largest = 0x43FFE000;
  static constexpr std::uint32_t smallest = 0x34000000;   // 2^-23
  static constexpr std::uint32_t small_operand = 0x1401;  // behind 2^-10
};

/// Two neighbouring K slots.
template <class T>
struct Pair;
template <>
struct Pair<__half> {
  __device__ __forceinline__ static std::uint32_t pack(float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  __device__ __forceinline__ static float2 unpack(std::uint32_t bits) {
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  }
};
template <>
struct Pair<__nv_bfloat16> {
  __device__ __forceinline__ static std::uint32_t pack(float a, float b) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  __device__ __forceinline__ static float2 unpack(std::uint32_t bits) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u));
  }
};

/// Watches the |x| that pass by: their largest, and their smallest that is not zero.
template <class M>
struct RangeCheck {
  std::uint32_t most = 0, least = 0xFFFFFFFFu;

  __device__ __forceinline__ void see(float x) {
    const std::uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFu;
    most = max(most, bits);
    if constexpr (M::smallest != 0) least = min(least, bits - 1);  // zero wraps around to the largest
  }
  __device__ __forceinline__ bool too_large() const { return most > M::largest; }
  __device__ __forceinline__ bool failed() const {
    return too_large() || (M::smallest != 0 && least < M::smallest - 1);
  }
};

/// x as the exact path multiplies it: rounded where the precision says that operands are.
template <Precision precision>
__device__ __forceinline__ float exact_operand(float x) {
  if constexpr (precision == Precision::fp16) return __half2float(__float2half_rn(x));
  if constexpr (precision == Precision::bf16) return __bfloat162float(__float2bfloat16_rn(x));
  return x;
}

/// What is done to sums that are stored as Out.
template <class Out, int n>
__device__ __forceinline__ void finish(const Params& p, float (&y)[n]) {
  const auto each = [&](auto function) {
#pragma unroll
    for (int i = 0; i < n; ++i) y[i] = function(y[i]);
  };
  using Kind = Finish::Kind;
  if (p.function == Kind::silu) return each([](float v) { return finished<Kind::silu, Out>({}, v); });
  if (p.function == Kind::hard_swish) return each([](float v) { return finished<Kind::hard_swish, Out>({}, v); });
  if (p.function == Kind::leaky) return each([&](float v) { return v < 0.0f ? v * p.low : v; });
  if (p.low > -INFINITY) each([&](float v) { return ptx::max_nan(v, p.low); });
  if (p.high < INFINITY) each([&](float v) { return ptx::min_nan(v, p.high); });
}

}  // namespace lamina::cuda::first_layer
