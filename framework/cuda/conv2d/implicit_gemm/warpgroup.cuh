#pragma once

// The inside of the implicit GEMM on wgmma (sm_90a): the block's four warps multiply as one, from shared memory.
// The tiles' 128-byte rows, swizzled by row % 8, are just what wgmma calls K-major with 128-byte swizzle.
// Source: PTX ISA, "wgmma.mma_async", "matrix descriptor" and "register fragments" of m64nNk16 and m64nNk8.

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"
#include "lamina/cuda/conv2d/implicit_gemm/operands.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

namespace lamina::cuda::implicit_gemm {

/// The accumulators of one product, fragment by fragment, as one row.
template <int fragments>
__device__ __forceinline__ auto flat(float (&d)[fragments][4]) -> float (&)[fragments * 4] {
  return reinterpret_cast<float(&)[fragments * 4]>(d);
}

/// m filters x 128 pixels for a block, in products of 64 x 128; a warp holds 16 rows of each.
template <class Operand, int m>
struct WarpgroupTile {
  using Op = Operand;
  static constexpr bool needs_wgmma = true, compiled = ptx::wgmma_compiled;
  static constexpr bool reads_ahead = false;
  static constexpr int block_m = m, block_n = 128, threads = 128, stages = 3;
  static constexpr int fragments_m = block_m / 64, fragments_n = block_n / 8;
  static_assert(block_m % 64 == 0, "a wgmma product has 64 rows");
  static_assert((block_m + block_n) * step_bytes % 1024 == 0, "the swizzle repeats every 1,024 bytes");

  float sum[fragments_m][fragments_n][4] = {};

  static constexpr int extra_bytes = 0;

  __device__ explicit WarpgroupTile(unsigned char*) {}

  __device__ void prepare(const unsigned char*) {}

  /// Where fragment (i, j) lies in the block's tile.
  __device__ static int row(int warp, int i) { return i * 64 + warp * 16; }
  __device__ static int column(int, int j) { return j * 8; }

  /// sum += A B over one step of K at shared address `tiles`; `between` starts the copies of a later step meanwhile.
  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    const std::uint64_t a = ptx::rows_descriptor(tiles), b = ptx::rows_descriptor(tiles + block_m * step_bytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
        // Addresses in a descriptor count 16 bytes.
        ptx::wgmma<typename Op::Word>(flat(sum[i]), a + static_cast<unsigned>(piece * 2 + i * 64 * step_bytes / 16),
                                      b + static_cast<unsigned>(piece * 2), true);
      }
    }
    ptx::wgmma_commit();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) between(piece);
    ptx::wgmma_wait<0>();
  }
};

/// fp32 as three TF32 products: 64 filters x 128 pixels for a block. A is split in registers. Of B the tensor cores
/// take the raw words for high ones, since they ignore the low 13 bits; the low words go to a plane of their own, each
/// written by the thread that copied the raw one, and two planes take turns because the products run on.
struct SplitWarpgroupTile {
  using Op = SplitTf32;
  static constexpr bool needs_wgmma = true, compiled = ptx::wgmma_compiled;
  static constexpr bool reads_ahead = false;
  static constexpr int block_m = 64, block_n = 128, threads = 128, stages = 3;
  static constexpr int fragments_m = 1, fragments_n = block_n / 8;
  static constexpr int plane_bytes = block_n * step_bytes;
  static constexpr int extra_bytes = 2 * plane_bytes;

  float sum[fragments_m][fragments_n][4] = {};
  unsigned char* planes;  // [2][block_n, 128 bytes], shared
  int plane = 0;          // the one in use

  __device__ explicit SplitWarpgroupTile(unsigned char* extra) : planes(extra) {}

  __device__ static int row(int warp, int) { return warp * 16; }
  __device__ static int column(int, int j) { return j * 8; }

  /// Low words of what this thread has copied to `tiles` in units of 16 bytes.
  __device__ __forceinline__ void prepare(const unsigned char* tiles) {
    plane ^= 1;
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int pass = 0; pass < block_n * 8 / threads; ++pass) {
      const int at = swizzled(thread / 8 + pass * (threads / 8), thread % 8 * 16);
      const float4 raw = *reinterpret_cast<const float4*>(tiles + block_m * step_bytes + at);
      *reinterpret_cast<float4*>(planes + plane * plane_bytes + at) = {low_word(raw.x), low_word(raw.y),
                                                                       low_word(raw.z), low_word(raw.w)};
    }
  }

  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const unsigned a_rows = tiles + static_cast<unsigned>(swizzled(warp * 16 + lane % 16, lane / 16 * 16));
    const std::uint64_t b = ptx::rows_descriptor(tiles + block_m * step_bytes);
    const std::uint64_t b_low =
        ptx::rows_descriptor(ptx::shared_address(planes) + static_cast<unsigned>(plane * plane_bytes));
    SplitRows a;
    a.load(a_rows);
    float chain[fragments_n][4] = {};
    ptx::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      const auto at = static_cast<unsigned>(piece * 2);
      ptx::wgmma(flat(chain), a.low[piece], b + at, true);
      ptx::wgmma(flat(chain), a.down[piece], b_low + at, true);
      ptx::wgmma(flat(chain), a.high[piece], b + at, true);
    }
    ptx::wgmma_commit();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) between(piece);
    ptx::wgmma_wait<0>();
    a.pin();
    ptx::pin(flat(chain));
#pragma unroll
    for (int j = 0; j < fragments_n; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[0][j][r] += chain[j][r];
    }
  }
};

}  // namespace lamina::cuda::implicit_gemm
