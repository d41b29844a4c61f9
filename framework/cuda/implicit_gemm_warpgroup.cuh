#pragma once

// The inside of the implicit GEMM on wgmma (sm_90a): the block's four warps multiply as one, from shared memory.
// The tiles' 128-byte rows, swizzled by row % 8, are just what wgmma calls K-major with 128-byte swizzle.
// Source: PTX ISA, "wgmma.mma_async", "matrix descriptor" and "register fragments" of m64nNk16 and m64nNk8.

#include "lamina/cuda/mma_sync.cuh"

namespace lamina::cuda::implicit_gemm {

/// Orders this thread's shared-memory writes, cp.async's among them, before what the tensor cores read.
__device__ __forceinline__ void fence_for_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/// Where an operand's rows begin: address / 16, eight rows (1,024 bytes) from group to group, 128-byte swizzle.
__device__ __forceinline__ std::uint64_t matrix_descriptor(unsigned address) {
  return (address & 0x3ffffu) >> 4 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

/// d += a b over 32 bytes of K: a [64, K] and b [128, K] named by descriptors. Runs on after it returns.
template <class Op>
__device__ __forceinline__ void multiply_64x128(float (&d)[16][4], std::uint64_t a, std::uint64_t b) {
#define LAMINA_WGMMA(shape_and_types, transposes)                                                                \
  asm volatile("wgmma.mma_async.sync.aligned." shape_and_types                                                   \
               " {"                                                                                              \
               "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                \
               "%8, %9, %10, %11, %12, %13, %14, %15, "                                                          \
               "%16, %17, %18, %19, %20, %21, %22, %23, "                                                        \
               "%24, %25, %26, %27, %28, %29, %30, %31, "                                                        \
               "%32, %33, %34, %35, %36, %37, %38, %39, "                                                        \
               "%40, %41, %42, %43, %44, %45, %46, %47, "                                                        \
               "%48, %49, %50, %51, %52, %53, %54, %55, "                                                        \
               "%56, %57, %58, %59, %60, %61, %62, %63"                                                          \
               "}, %64, %65, 1, 1, 1" transposes ";\n"                                                           \
               : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),       \
                 "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),       \
                 "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),       \
                 "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),       \
                 "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),       \
                 "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),       \
                 "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),     \
                 "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), \
                 "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), \
                 "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), \
                 "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])                                  \
               : "l"(a), "l"(b))
  if constexpr (std::is_same_v<Op, Fp16>) {
    LAMINA_WGMMA("m64n128k16.f32.f16.f16", ", 0, 0");
  } else if constexpr (std::is_same_v<Op, Bf16>) {
    LAMINA_WGMMA("m64n128k16.f32.bf16.bf16", ", 0, 0");
  } else {
    LAMINA_WGMMA("m64n128k8.f32.tf32.tf32", "");
  }
#undef LAMINA_WGMMA
}

/// m filters x 128 pixels for a block, in products of 64 x 128; a warp holds 16 rows of each.
template <class Operand, int m>
struct WarpgroupTile {
  using Op = Operand;
  static constexpr bool from_shared = true;  // the tensor cores read it themselves
  static constexpr int block_m = m, block_n = 128;
  static constexpr int fragments_m = block_m / 64, fragments_n = block_n / 8;
  static_assert(block_m % 64 == 0, "a wgmma product has 64 rows");
  static_assert((block_m + block_n) * step_bytes % 1024 == 0, "the swizzle repeats every 1,024 bytes");

  float sum[fragments_m][fragments_n][4] = {};

  __device__ WarpgroupTile(int, int) {}

  /// Where fragment (i, j) lies in the block's tile.
  __device__ static int row(int warp, int i) { return i * 64 + warp * 16; }
  __device__ static int column(int, int j) { return j * 8; }

  /// sum += A B over one step of K at shared address `tiles`; `between` starts the copies of a later step meanwhile.
  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    const std::uint64_t a = matrix_descriptor(tiles), b = matrix_descriptor(tiles + block_m * step_bytes);
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
        // Addresses in a descriptor count 16 bytes.
        multiply_64x128<Op>(sum[i], a + static_cast<unsigned>(piece * 2 + i * 64 * step_bytes / 16),
                            b + static_cast<unsigned>(piece * 2));
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) between(piece);
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  }
};

}  // namespace lamina::cuda::implicit_gemm
