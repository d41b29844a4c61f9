#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/conv2d/mma/arguments.h"
#include "lamina/cuda/ptx/half_step.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/tf32.h"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

/// The operand types, and one step of K of each: 32 bytes of channels.
namespace lamina::cuda::mma {

/// As they are stored.
template <class T, Precision which>
struct Halves {
  using Element = T;
  static constexpr Precision precision = which;
  static constexpr bool split = false;
  using Weights = uint2;  // of a lane, in a fragment

  template <int m, int n>
  struct Sums {
    float sum[m][n][4] = {};

    __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][4], const Weights (&b)[n], int) {
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const std::uint32_t pair[2] = {b[j].x, b[j].y};
#pragma unroll
        for (int i = 0; i < m; ++i) ptx::mma<T>(sum[i][j], a[i], pair, sum[i][j]);
      }
    }
    /// Of half a step.
    __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][2], const std::uint32_t (&b)[n]) {
#pragma unroll
      for (int j = 0; j < n; ++j) {
#pragma unroll
        for (int i = 0; i < m; ++i) ptx::mma<T>(sum[i][j], a[i], b[j], sum[i][j]);
      }
    }
    __device__ __forceinline__ void end() {}
  };
  __device__ static float value(float x) { return x; }
};
using Fp16 = Halves<__half, Precision::fp16>;
using Bf16 = Halves<__nv_bfloat16, Precision::bf16>;

/// Pixels are rounded to nearest as they come from shared memory, weights when they are packed.
struct Tf32 {
  using Element = float;
  static constexpr Precision precision = Precision::tf32;
  static constexpr bool split = false;
  using Weights = uint2;

  template <int m, int n>
  struct Sums {
    float sum[m][n][4] = {};

    __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][4], const Weights (&b)[n], int) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          a[i][r] = ptx::nearest_tf32(__uint_as_float(a[i][r]));
        }
      }
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const std::uint32_t pair[2] = {b[j].x, b[j].y};
#pragma unroll
        for (int i = 0; i < m; ++i) ptx::mma<ptx::Tf32>(sum[i][j], a[i], pair, sum[i][j]);
      }
    }
    __device__ __forceinline__ void end() {}
  };
  __device__ static float value(float x) { return __uint_as_float(round_to_tf32(__float_as_uint(x))); }
};

/// fp32 as three products of TF32 words, corrections first, in chains of 32 terms that begin at zero: the tensor cores
/// round toward zero as they add. Low words of pixels are scaled up, and what they meet down: a subnormal pixel is all
/// low word. See split_tf32.cuh.
struct SplitTf32 {
  using Element = float;
  static constexpr Precision precision = Precision::fp32;
  static constexpr bool split = true;
  using Weights = uint4;  // two high words, two low ones

  template <int m, int n>
  struct Sums {
    float sum[m][n][4] = {}, chain[m][n][4] = {};

    __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][4], const Weights (&b)[n], int step) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
        std::uint32_t low[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          float rest;
          split_tf32(a[i][r], a[i][r], rest);
          low[r] = __float_as_uint(rest * split_scale);
        }
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const std::uint32_t high_pair[2] = {b[j].x, b[j].y}, low_pair[2] = {b[j].z, b[j].w};
          const std::uint32_t down_pair[2] = {down(b[j].x), down(b[j].y)};
          ptx::mma<ptx::Tf32>(chain[i][j], low, down_pair, chain[i][j]);
          ptx::mma<ptx::Tf32>(chain[i][j], a[i], low_pair, chain[i][j]);
          ptx::mma<ptx::Tf32>(chain[i][j], a[i], high_pair, chain[i][j]);
        }
      }
      if (step % 4 == 3) end();
    }
    __device__ __forceinline__ static std::uint32_t down(std::uint32_t high) {
      return __float_as_uint(__uint_as_float(high) * (1.0f / split_scale));
    }
    __device__ __forceinline__ void end() {
#pragma unroll
      for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int j = 0; j < n; ++j) {
#pragma unroll
          for (int r = 0; r < 4; ++r) sum[i][j][r] += chain[i][j][r], chain[i][j][r] = 0.0f;
        }
      }
    }
  };
  __device__ static float value(float x) { return x; }
};

}  // namespace lamina::cuda::mma
