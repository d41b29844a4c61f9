#pragma once

// The inside of the implicit GEMM on mma.sync: four warps, each multiplying a quarter of the block's tile.

#include <type_traits>

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"
#include "lamina/cuda/conv2d/implicit_gemm/operands.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

namespace lamina::cuda::implicit_gemm {

/// m filters x n pixels for a block, warp_m x warp_n for a warp, in fragments of 16 x 8. Both operands come by ldmatrix
/// from 128-byte rows; docs/implicit_gemm.md shows the lanes.
template <class Operand, int m, int n, int warp_m, int warp_n, int depth = 3>
struct WarpTile {
  using Op = Operand;
  static constexpr bool split = std::is_same_v<Op, SplitTf32>;
  static constexpr bool needs_wgmma = false, compiled = true, reads_ahead = !split;
  static constexpr int extra_bytes = 0;
  static constexpr int block_m = m, block_n = n;
  static constexpr int stages = depth;  // steps in shared memory: one is multiplied, the others are on their way
  static constexpr int fragments_m = warp_m / 16, fragments_n = warp_n / 8;
  static constexpr int warps_n = block_n / warp_n;
  static constexpr int threads = block_m / warp_m * warps_n * 32;
  static_assert(block_m % warp_m == 0 && block_n % warp_n == 0, "the warps cover the tile exactly once");
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0, "ldmatrix.x4 loads 16 rows of either operand");

  float sum[fragments_m][fragments_n][4] = {};
  unsigned a_lane, b_lane;                                                          // where this lane's rows begin
  unsigned a[2][split ? 1 : fragments_m][4], b[2][split ? 1 : fragments_n / 2][4];  // of two pieces in turn

  __device__ explicit WarpTile(unsigned char*) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    a_lane = static_cast<unsigned>(swizzled(first_row(warp) + lane % 16, lane / 16 * 16));
    b_lane = static_cast<unsigned>(block_m * step_bytes +
                                   swizzled(first_column(warp) + lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16));
  }
  __device__ void prepare(const unsigned char*) {}

  __device__ static int first_row(int warp) { return warp / warps_n * warp_m; }
  __device__ static int first_column(int warp) { return warp % warps_n * warp_n; }
  /// Where fragment (i, j) lies in the block's tile.
  __device__ static int row(int warp, int i) { return first_row(warp) + i * 16; }
  __device__ static int column(int warp, int j) { return first_column(warp) + j * 8; }

  /// The fragments of 32 bytes of K of the step at shared address `tiles`.
  __device__ __forceinline__ void read(unsigned tiles, int piece) {
#pragma unroll
    for (int i = 0; i < fragments_m; ++i) {
      ptx::load_matrices(a[piece % 2][i], (tiles + a_lane ^ static_cast<unsigned>(piece) << 5) + i * 16 * step_bytes);
    }
#pragma unroll
    for (int j = 0; j < fragments_n / 2; ++j) {
      ptx::load_matrices(b[piece % 2][j], (tiles + b_lane ^ piece << 5) + j * 16 * step_bytes);
    }
  }

  /// sum += A B over what was read to buffer `which`. Pixels in tf32 are rounded to nearest now, unless staging has.
  __device__ __forceinline__ void multiply(int which) {
#pragma unroll
    for (int j = 0; j < fragments_n; ++j) {
      unsigned b_pair[2] = {b[which][j / 2][j % 2 * 2], b[which][j / 2][j % 2 * 2 + 1]};
      if constexpr (std::is_same_v<Op, Tf32>) {
        b_pair[0] = ptx::nearest_tf32(__uint_as_float(b_pair[0]));
        b_pair[1] = ptx::nearest_tf32(__uint_as_float(b_pair[1]));
      }
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) ptx::mma<typename Op::Word>(sum[i][j], a[which][i], b_pair, sum[i][j]);
    }
  }

  /// sum += A B over one step of K at shared address `tiles`, in four pieces of 32 bytes. `between(piece)` starts the
  /// copies of a later step: its integer work fills the gaps between the products. In fp32: A B = low high + high low +
  /// high high, corrections first, in chains of one step that begin at zero: the tensor cores round toward zero as they
  /// add. Both factors of high * low carry split_scale, A's as its inverse.
  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    float chain[fragments_m][fragments_n][4] = {};
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      unsigned a[fragments_m][4], a_low[fragments_m][4], a_down[fragments_m][4];
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
        ptx::load_matrices(a[i], (tiles + a_lane ^ static_cast<unsigned>(piece) << 5) + i * 16 * step_bytes);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          float low;
          split_tf32(a[i][r], a[i][r], low);
          a_low[i][r] = __float_as_uint(low);
          a_down[i][r] = __float_as_uint(__uint_as_float(a[i][r]) * (1.0f / split_scale));
        }
      }
      between(piece);
#pragma unroll
      for (int pair = 0; pair < fragments_n / 2; ++pair) {
        unsigned b[4];
        ptx::load_matrices(b, (tiles + b_lane ^ piece << 5) + pair * 16 * step_bytes);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int j = pair * 2 + half;
          unsigned b_high[2], b_low[2];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float low;
            split_tf32(b[half * 2 + r], b_high[r], low);
            b_low[r] = __float_as_uint(low * split_scale);
          }
#pragma unroll
          for (int i = 0; i < fragments_m; ++i) ptx::mma<typename Op::Word>(chain[i][j], a_low[i], b_high, chain[i][j]);
#pragma unroll
          for (int i = 0; i < fragments_m; ++i) ptx::mma<typename Op::Word>(chain[i][j], a_down[i], b_low, chain[i][j]);
#pragma unroll
          for (int i = 0; i < fragments_m; ++i) ptx::mma<typename Op::Word>(chain[i][j], a[i], b_high, chain[i][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < fragments_m; ++i) {
#pragma unroll
      for (int j = 0; j < fragments_n; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[i][j][r] += chain[i][j][r];
      }
    }
  }
};

}  // namespace lamina::cuda::implicit_gemm
