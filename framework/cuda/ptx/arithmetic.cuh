#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

/// Arithmetic of one instruction that CUDA C++ has no name for. PTX ISA, "max", "min", "rcp", "ex2",
/// "cvt.pack".
namespace lamina::cuda::ptx {

/// The larger of two, and the smaller; NaN if one is NaN. sm_80.
__device__ __forceinline__ float max_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float min_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// The larger of two words, which hold one f32 or two elements of 16 bits.
template <class T>
__device__ __forceinline__ std::uint32_t max_nan(std::uint32_t a, std::uint32_t b) {
  if constexpr (sizeof(T) == 4) {
    asm("max.NaN.f32 %0, %0, %1;" : "+r"(a) : "r"(b));
  } else if constexpr (std::is_same_v<T, __half>) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  }
  return a;
}

/// Bytes {b, a, and the lower two of rest}: a and b saturate to u8. sm_72.
__device__ __forceinline__ std::uint32_t pack_saturated(int a, int b, std::uint32_t rest) {
  std::uint32_t result;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(rest));
  return result;
}

/// 1 / x and 2^x within 2 ulp; subnormal numbers are 0.
__device__ __forceinline__ float reciprocal(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ float exp2(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

}  // namespace lamina::cuda::ptx
