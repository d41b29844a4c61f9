#pragma once

#include <type_traits>

#include "lamina/cuda/conv2d/mma/resident/arguments.h"
#include "lamina/cuda/ptx/half_step.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/tensor_core/operands.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

/// What a warp adds up of 16 m pixels x 8 n filters, a step of K at a time: 32 bytes of channels.
namespace lamina::cuda::mma::resident {

/// Codes of u8 or i8, times whole numbers of i8.
template <class T>
struct OfCodes {
  using Element = T;
  using Word = T;
  static constexpr bool split = false;
};
template <class Op>
inline constexpr bool of_codes = std::is_integral_v<typename Op::Element>;

/// A lane's words of a fragment of weights: two, or two high ones and two low ones.
template <class Op>
using Weights = std::conditional_t<Op::split, uint4, uint2>;

template <class Op, int m, int n>
struct Sums {
  std::conditional_t<of_codes<Op>, int, float> sum[m][n][4] = {};

  /// Pixels in TF32 are rounded to nearest as they come from shared memory, weights when they are packed.
  __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][4], const uint2 (&b)[n], int) {
    if constexpr (std::is_same_v<Op, Tf32>) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) a[i][r] = ptx::nearest_tf32(__uint_as_float(a[i][r]));
      }
    }
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const std::uint32_t pair[2] = {b[j].x, b[j].y};
#pragma unroll
      for (int i = 0; i < m; ++i) ptx::mma<typename Op::Word>(sum[i][j], a[i], pair, sum[i][j]);
    }
  }
  /// Of half a step.
  __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][2], const std::uint32_t (&b)[n]) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
#pragma unroll
      for (int i = 0; i < m; ++i) ptx::mma<typename Op::Word>(sum[i][j], a[i], b[j], sum[i][j]);
    }
  }
  __device__ __forceinline__ void end() {}
};

/// fp32 as three products of TF32 words, corrections first, in chains of 32 terms that begin at zero: the tensor cores
/// round toward zero as they add. Low words of pixels are scaled up, and what they meet down: a subnormal pixel is all
/// low word. See split_tf32.cuh.
template <int m, int n>
struct Sums<SplitTf32, m, n> {
  float sum[m][n][4] = {}, chain[m][n][4] = {};

  __device__ __forceinline__ void multiply(std::uint32_t (&a)[m][4], const uint4 (&b)[n], int step) {
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
        const std::uint32_t down_pair[2] = {scaled_down(b[j].x), scaled_down(b[j].y)};
        ptx::mma<ptx::Tf32>(chain[i][j], low, down_pair, chain[i][j]);
        ptx::mma<ptx::Tf32>(chain[i][j], a[i], low_pair, chain[i][j]);
        ptx::mma<ptx::Tf32>(chain[i][j], a[i], high_pair, chain[i][j]);
      }
    }
    if (step % 4 == 3) end();
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

}  // namespace lamina::cuda::mma::resident
