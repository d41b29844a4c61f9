#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/shared.cuh"

/// fp32 as TF32 words for three products of tensor cores. Source: Ootomo and Yokota, "Recovering single precision
/// accuracy from Tensor Cores" (2022). docs/inside/implicit_gemm.md has the argument for the scale.
namespace lamina::cuda {

/// An fp32 word cut in two TF32 words: value = high + low / split_scale, to within 2^-21 of itself. The low word is
/// scaled up so that it does not fall among the subnormals where the value itself is tiny.
inline constexpr float split_scale = 8192.0f;

__device__ __forceinline__ void split_tf32(std::uint32_t value, std::uint32_t& high, float& low) {
  high = (value + 0x1000u) & 0xffffe000u;  // to nearest; what overflows is caught in the epilogue
  low = __uint_as_float(value) - __uint_as_float(high);
}

/// A high word divided by split_scale, which the other operand's scaled low words are multiplied by.
__device__ __forceinline__ std::uint32_t scaled_down(std::uint32_t high) {
  return __float_as_uint(__uint_as_float(high) * (1.0f / split_scale));
}

/// The low word where the tensor cores are given x itself for the high one, and ignore its low 13 bits: what they do
/// not see, scaled, and rounded to what they see.
__device__ __forceinline__ float low_word(float x) {
  const float rest = (x - __uint_as_float(__float_as_uint(x) & 0xffffe000u)) * split_scale;
  return __uint_as_float(__float_as_uint(rest) + 0x1000u);
}

/// A warp's 16 rows of one step of K, in the fragments that ldmatrix makes: high words, low words, and high words
/// divided by split_scale, which the other operand's low words are multiplied by.
struct SplitRows {
  std::uint32_t high[4][4], low[4][4], down[4][4];

  /// From `address` on: this lane's row of the first piece of 32 bytes of K.
  __device__ __forceinline__ void load(std::uint32_t address) {
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      ptx::load_matrices(high[piece], address ^ static_cast<std::uint32_t>(piece << 5));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float rest;
        split_tf32(high[piece][r], high[piece][r], rest);
        low[piece][r] = __float_as_uint(rest);
        down[piece][r] = scaled_down(high[piece][r]);
      }
    }
  }

  /// After wgmma that read them have been waited for.
  __device__ __forceinline__ void pin() {
#pragma unroll
    for (int i = 0; i < 16; ++i) ptx::pin(high[i / 4][i % 4], low[i / 4][i % 4], down[i / 4][i % 4]);
  }
};

}  // namespace lamina::cuda
