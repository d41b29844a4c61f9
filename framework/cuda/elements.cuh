#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "lamina/base/error.h"
#include "lamina/tensor/dtype.h"

/// The element types of activations on the device, one at a time and 16 bytes at a time. Arithmetic is in f32.
namespace lamina::cuda {

__device__ inline float to_f32(float x) { return x; }
__device__ inline float to_f32(__half x) { return __half2float(x); }
__device__ inline float to_f32(__nv_bfloat16 x) { return __bfloat162float(x); }
/// Codes, as the numbers that they are.
__device__ inline float to_f32(std::uint8_t x) { return static_cast<float>(x); }
__device__ inline float to_f32(std::int8_t x) { return static_cast<float>(x); }

template <class T>
__device__ inline T from_f32(float x);
template <>
__device__ inline float from_f32<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_f32<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_f32<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// y = x, or max(x, 0) with NaN kept: fmaxf would drop it.
__device__ inline float activate(float x, bool relu) { return relu && x < 0.0f ? 0.0f : x; }

/// Elements that are loaded and stored in one access of at most 16 bytes.
template <class T, int N = 16 / sizeof(T)>
struct alignas(N * sizeof(T)) Pack {
  static constexpr int size = N;
  T values[N];
};

/// Calls f with a word of `size` bytes, 1, 2, 4, 8 or 16.
template <class F>
void with_word(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    case 8: return f(std::uint64_t{});
    default: return f(Pack<std::uint64_t>{});
  }
}

inline bool aligned_to_16(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// Calls f with a null pointer to the type that stores `dtype`. Throws Error unless that is f32, f16 or bf16.
template <class F>
void with_element_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(static_cast<float*>(nullptr));
    case DType::f16: return f(static_cast<__half*>(nullptr));
    case DType::bf16: return f(static_cast<__nv_bfloat16*>(nullptr));
    default: detail::fail("activations on a GPU are f32, f16 or bf16, not ", dtype);
  }
}

}  // namespace lamina::cuda
