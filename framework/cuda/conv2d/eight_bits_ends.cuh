#pragma once

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"
#include "lamina/cuda/ptx/bytes.cuh"
#include "lamina/cuda/ptx/shared.cuh"

/// The formulas of docs/inside/precision.md: each operation of f32 rounded once, none made one with another.
namespace lamina::cuda::eight_bits {

/// Numbers from here on are whole, and to add it to less than 2^22 rounds halves to even: what lies behind its bits is
/// the result. A multiprocessor does eight such additions in the time of a conversion.
inline constexpr float whole = 12582912.0f;

__device__ __forceinline__ float number(const SumsEnd& end, int sum, float factor, float bias) {
  const float q = __fmul_rn(__int2float_rn(sum), factor);
  if (!end.read) return clamped(__fadd_rn(q, bias), end.low, end.high);
  const float code = __fsub_rn(__fadd_rn(fminf(fmaxf(q, end.low), end.high), whole), whole);
  return __fmul_rn(code, end.quantization.scale);
}

/// clamp(round(q)) + zero in the lowest byte; the others are anything.
__device__ __forceinline__ std::uint32_t rounded(float q, float low, float high, std::uint32_t zero) {
  return __float_as_uint(__fadd_rn(fminf(fmaxf(q, low), high), whole)) + zero;
}

/// Four codes, where Saturation is for them, in the order of the numbers.
__device__ __forceinline__ std::uint32_t saturated(const Saturation& to, float a, float b, float c, float d) {
  const auto code = [&](float q) { return __float_as_int(__fadd_rn(q, whole)) + to.to_code; };
  return ptx::pack_saturated(code(b), code(a), ptx::pack_saturated(code(d), code(c), 0)) ^ to.flip;
}

/// Four codes' sums with four others; `table`: its address in shared memory.
__device__ __forceinline__ std::uint32_t added(std::uint32_t table, std::uint32_t own, std::uint32_t others) {
  static_assert(sums_pitch == 2 * 130);  // which the sum of products of four bytes is made of
  const auto at = [&](unsigned j) {
    const std::uint32_t bytes = __byte_perm(own, others, j << 12 | j << 8 | j << 4 | (j + 4));
    return ptx::load_shared_byte(__dp4a(bytes, 0x00828201u, table));
  };
  return ptx::lowest_bytes(at(0), at(1), at(2), at(3));
}

/// Four codes, looked up. The table stays in L1.
__device__ __forceinline__ std::uint32_t looked_up(const std::uint8_t* table, std::uint32_t four) {
  const auto at = [&](std::uint32_t code) { return std::uint32_t{__ldg(table + code)}; };
  return ptx::lowest_bytes(at(four & 0xffu), at(four >> 8 & 0xffu), at(four >> 16 & 0xffu), at(four >> 24));
}

/// The same of a sum.
__device__ __forceinline__ std::uint32_t code(const SumsEnd& end, int sum, float factor, float bias) {
  const auto zero = static_cast<std::uint32_t>(end.quantization.zero_point);
  if (end.codes) return rounded(__fmul_rn(__int2float_rn(sum), factor), end.low, end.high, zero);
  const float low = static_cast<float>((end.type == DType::u8 ? 0 : -128) - end.quantization.zero_point);
  return rounded(__fdiv_rn(number(end, sum, factor, bias), end.quantization.scale), low, low + 255.0f, zero);
}

/// n neighbouring channels of a pixel, with their offsets.
template <int n>
__device__ __forceinline__ void put(const SumsEnd& end, const int (&sum)[n], const float (&factor)[n],
                                    const float (&bias)[n], void* output, std::int64_t index) {
  const auto as = [&](auto zero, auto&& finished) {
    using T = decltype(zero);
    Pack<T, n> pack;
#pragma unroll
    for (int i = 0; i < n; ++i) pack.values[i] = finished(i);
    *reinterpret_cast<Pack<T, n>*>(static_cast<T*>(output) + index) = pack;
  };
  const auto y = [&](int i) { return number(end, sum[i], factor[i], bias[i]); };
  switch (end.type) {
    case DType::i32: return as(int{}, [&](int i) { return sum[i]; });
    case DType::f32: return as(float{}, y);
    case DType::f16: return as(__half{}, [&](int i) { return from_f32<__half>(y(i)); });
    case DType::bf16: return as(__nv_bfloat16{}, [&](int i) { return from_f32<__nv_bfloat16>(y(i)); });
    default:
      return as(std::uint8_t{},
                [&](int i) { return static_cast<std::uint8_t>(code(end, sum[i], factor[i], bias[i])); });
  }
}

}  // namespace lamina::cuda::eight_bits
