#pragma once

// The inside of the implicit GEMM: warps that each multiply a part of the block's tile by mma.sync.

#include <type_traits>

#include "lamina/cuda/conv2d/mma/gathered/arguments.h"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/tensor_core/operands.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

namespace lamina::cuda::mma::gathered {

/// m filters x n pixels for a block, warp_m x warp_n for a warp, in fragments of 8 filters x 16 pixels: mma.sync's rows
/// are pixels. Both operands come by ldmatrix from 128-byte rows; docs/inside/implicit_gemm.md shows the lanes.
template <class Operand, int m, int n, int warp_m, int warp_n, int depth = 3>
struct WarpTile {
  using Op = Operand;
  static constexpr bool split = Op::split;
  static constexpr bool reads_ahead = !split;
  static constexpr int block_m = m, block_n = n;
  static constexpr int stages = depth;  // steps in shared memory: one is multiplied, the others are on their way
  static constexpr int fragments_m = warp_m / 8, fragments_n = warp_n / 16;
  static constexpr int warps_n = block_n / warp_n;
  static constexpr int threads = block_m / warp_m * warps_n * 32;
  static_assert(block_m % warp_m == 0 && block_n % warp_n == 0, "the warps cover the tile exactly once");
  static_assert(warp_m % 32 == 0 && warp_n % 16 == 0, "row_of_filter is about 32 filters, a fragment has 16 pixels");

  float sum[fragments_n][fragments_m][4];
  unsigned pixel_lane, filter_lane;  // where this lane's rows begin
  // Fragments of two pieces of K in turn.
  unsigned pixels[2][split ? 1 : fragments_n][4], filters[2][split ? 1 : fragments_m / 2][4];

  __device__ WarpTile() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    pixel_lane = static_cast<unsigned>(block_m * step_bytes + swizzled(first_pixel() + lane % 16, lane / 16 * 16));
    filter_lane = static_cast<unsigned>(swizzled(first_filter() + lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16));
  }

  /// The warp's part of the tile.
  __device__ static int first_filter() { return static_cast<int>(threadIdx.x) / 32 / warps_n * warp_m; }
  __device__ static int first_pixel() { return static_cast<int>(threadIdx.x) / 32 % warps_n * warp_n; }

  /// What the epilogue takes at a time: eight neighbouring filters of a pixel, this lane's unit u.
  static constexpr int units_of_fragment = fragments_m / 4 * 2;  // of pixels, 16
  static constexpr int units = fragments_n * units_of_fragment;
  __device__ static int filter_of(int unit) {
    return first_filter() + unit % units_of_fragment / 2 * 32 + static_cast<int>(threadIdx.x) % 4 * 8;
  }
  __device__ static int pixel_of(int unit) {
    return first_pixel() + unit / units_of_fragment * 16 + unit % 2 * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  __device__ __forceinline__ void take(int unit, float (&values)[8]) const {
    const int first = unit % units_of_fragment / 2 * 4;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = sum[unit / units_of_fragment][first + k / 2][unit % 2 * 2 + k % 2];
  }

  /// The sums of each fragment of pixels to the place of the one before.
  __device__ __forceinline__ void move_up() {
#pragma unroll
    for (int i = 0; i + 1 < fragments_n; ++i) {
#pragma unroll
      for (int j = 0; j < fragments_m; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[i][j][r] = sum[i + 1][j][r];
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < fragments_n; ++i) {
#pragma unroll
      for (int j = 0; j < fragments_m; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[i][j][r] = 0.0f;
      }
    }
  }

  /// The fragments of 32 bytes of K of the step at shared address `tiles`. Pixels in tf32 are rounded to nearest now,
  /// unless staging has.
  __device__ __forceinline__ void read(unsigned tiles, int piece) {
#pragma unroll
    for (int i = 0; i < fragments_n; ++i) {
      ptx::load_matrices(pixels[piece % 2][i],
                         (tiles + pixel_lane ^ static_cast<unsigned>(piece) << 5) + i * 16 * step_bytes);
    }
#pragma unroll
    for (int j = 0; j < fragments_m / 2; ++j) {
      ptx::load_matrices(filters[piece % 2][j],
                         (tiles + filter_lane ^ static_cast<unsigned>(piece) << 5) + j * 16 * step_bytes);
    }
  }

  /// sum += pixels filters over what was read to buffer `which`.
  __device__ __forceinline__ void multiply(int which) {
    if constexpr (std::is_same_v<Op, Tf32>) {
#pragma unroll
      for (int i = 0; i < fragments_n; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) pixels[which][i][r] = ptx::nearest_tf32(__uint_as_float(pixels[which][i][r]));
      }
    }
#pragma unroll
    for (int j = 0; j < fragments_m; ++j) {
      const unsigned pair[2] = {filters[which][j / 2][j % 2 * 2], filters[which][j / 2][j % 2 * 2 + 1]};
#pragma unroll
      for (int i = 0; i < fragments_n; ++i) ptx::mma<typename Op::Word>(sum[i][j], pixels[which][i], pair, sum[i][j]);
    }
  }

  /// The same over one step of K at shared address `tiles` in fp32: low high + high low + high high, corrections first,
  /// in chains of one step that begin at zero: the tensor cores round toward zero as they add. Both factors of
  /// high low (of filter and pixel) carry split_scale, the filter's as its inverse. `between(piece)` starts the copies
  /// of a later step: its integer work fills the gaps between the products.
  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    float chain[fragments_n][fragments_m][4] = {};
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      unsigned pixel[fragments_n][4], pixel_low[fragments_n][4];
#pragma unroll
      for (int i = 0; i < fragments_n; ++i) {
        ptx::load_matrices(pixel[i], (tiles + pixel_lane ^ static_cast<unsigned>(piece) << 5) + i * 16 * step_bytes);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          float low;
          split_tf32(pixel[i][r], pixel[i][r], low);
          pixel_low[i][r] = __float_as_uint(low * split_scale);
        }
      }
      between(piece);
#pragma unroll
      for (int two = 0; two < fragments_m / 2; ++two) {
        unsigned filter[4];
        ptx::load_matrices(filter, (tiles + filter_lane ^ static_cast<unsigned>(piece) << 5) + two * 16 * step_bytes);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int j = two * 2 + half;
          unsigned high[2], low[2], down[2];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float rest;
            split_tf32(filter[half * 2 + r], high[r], rest);
            low[r] = __float_as_uint(rest);
            down[r] = scaled_down(high[r]);
          }
          const auto add = [&](const unsigned(&rows)[fragments_n][4], const unsigned(&columns)[2]) {
#pragma unroll
            for (int i = 0; i < fragments_n; ++i) {
              ptx::mma<typename Op::Word>(chain[i][j], rows[i], columns, chain[i][j]);
            }
          };
          add(pixel, low);
          add(pixel_low, down);
          add(pixel, high);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < fragments_n; ++i) {
#pragma unroll
      for (int j = 0; j < fragments_m; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[i][j][r] += chain[i][j][r];
      }
    }
  }
};

}  // namespace lamina::cuda::mma::gathered
