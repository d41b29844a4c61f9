#pragma once

// The inside of the implicit GEMM on wgmma (sm_90a): the block's four warps multiply as one, from shared memory.
// The tiles' 128-byte rows, swizzled by row % 8, are just what wgmma calls K-major with 128-byte swizzle.
// Source: PTX ISA, "wgmma.mma_async", "matrix descriptor" and "register fragments" of m64nNk16 and m64nNk8.

#include "lamina/cuda/ptx/mma.cuh"

namespace lamina::cuda::implicit_gemm {

// wgmma exists for sm_90a and nothing else, not even for sm_90.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool wgmma_compiled = true;
#else
inline constexpr bool wgmma_compiled = false;
#endif

/// Orders this thread's shared-memory writes, cp.async's among them, before what the tensor cores read.
__device__ __forceinline__ void fence_for_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/// Where an operand's rows begin: address / 16, eight rows (1,024 bytes) from group to group, 128-byte swizzle.
__device__ __forceinline__ std::uint64_t matrix_descriptor(unsigned address) {
  return (address & 0x3ffffu) >> 4 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

// The 64 accumulators of a thread, d[16][4], as they appear in the instruction and in its operand list.
#define LAMINA_D_NAMES                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, "         \
  "%8, %9, %10, %11, %12, %13, %14, %15, "   \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define LAMINA_D_OPERANDS                                                                                             \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),            \
      "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),        \
      "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]),        \
      "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),        \
      "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]),        \
      "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),      \
      "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), \
      "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), \
      "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), \
      "+f"(d[15][3])

/// d += a b over 32 bytes of K: a [64, K] and b [128, K] named by descriptors. Runs on after it returns.
template <class Op>
__device__ __forceinline__ void multiply_64x128(float (&d)[16][4], std::uint64_t a, std::uint64_t b) {
#define LAMINA_WGMMA(shape_and_types, transposes)                                                                    \
  asm volatile("wgmma.mma_async.sync.aligned." shape_and_types " {" LAMINA_D_NAMES "}, %64, %65, 1, 1, 1" transposes \
               ";\n"                                                                                                 \
               : LAMINA_D_OPERANDS                                                                                   \
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

/// The same with a in registers, as TF32: a warp's 16 rows in the fragment that ldmatrix makes.
__device__ __forceinline__ void multiply_64x128(float (&d)[16][4], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" LAMINA_D_NAMES
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1;\n"
               : LAMINA_D_OPERANDS
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef LAMINA_D_NAMES
#undef LAMINA_D_OPERANDS

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory"); }

/// m filters x 128 pixels for a block, in products of 64 x 128; a warp holds 16 rows of each.
template <class Operand, int m>
struct WarpgroupTile {
  using Op = Operand;
  static constexpr bool needs_wgmma = true;
  static constexpr int block_m = m, block_n = 128;
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
    const std::uint64_t a = matrix_descriptor(tiles), b = matrix_descriptor(tiles + block_m * step_bytes);
    begin_products();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
        // Addresses in a descriptor count 16 bytes.
        multiply_64x128<Op>(sum[i], a + static_cast<unsigned>(piece * 2 + i * 64 * step_bytes / 16),
                            b + static_cast<unsigned>(piece * 2));
      }
    }
    commit_products();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) between(piece);
    wait_for_products();
  }
};

/// fp32 as three TF32 products: 64 filters x 128 pixels for a block. A is split in registers. Of B the tensor cores
/// take the raw words for high ones, since they ignore the low 13 bits; the low words go to a plane of their own, each
/// written by the thread that copied the raw one, and two planes take turns because the products run on.
struct SplitWarpgroupTile {
  using Op = SplitTf32;
  static constexpr bool needs_wgmma = true;
  static constexpr int block_m = 64, block_n = 128;
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
      *reinterpret_cast<float4*>(planes + plane * plane_bytes + at) = {low(raw.x), low(raw.y), low(raw.z), low(raw.w)};
    }
  }

  template <class Between>
  __device__ __forceinline__ void multiply_step(unsigned tiles, Between&& between) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const unsigned a_rows = tiles + static_cast<unsigned>(swizzled(warp * 16 + lane % 16, lane / 16 * 16));
    const std::uint64_t b = matrix_descriptor(tiles + block_m * step_bytes);
    const std::uint64_t b_low = matrix_descriptor(shared_address(planes) + static_cast<unsigned>(plane * plane_bytes));
    unsigned a_high[4][4], a_low[4][4], a_down[4][4];
    float chain[fragments_n][4] = {};
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      load_matrices(a_high[piece], a_rows ^ static_cast<unsigned>(piece << 5));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float rest;
        split_tf32(a_high[piece][r], a_high[piece][r], rest);
        a_low[piece][r] = __float_as_uint(rest);
        a_down[piece][r] = __float_as_uint(__uint_as_float(a_high[piece][r]) * (1.0f / split_scale));
      }
    }
    begin_products();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      multiply_64x128(chain, a_low[piece], b + static_cast<unsigned>(piece * 2));
      multiply_64x128(chain, a_down[piece], b_low + static_cast<unsigned>(piece * 2));
      multiply_64x128(chain, a_high[piece], b + static_cast<unsigned>(piece * 2));
    }
    commit_products();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) between(piece);
    wait_for_products();
    // The compiler does not know that the products read and write registers until here.
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile("" : "+r"(a_high[i / 4][i % 4]), "+r"(a_low[i / 4][i % 4]), "+r"(a_down[i / 4][i % 4])::"memory");
      asm volatile("" : "+f"(chain[i][0]), "+f"(chain[i][1]), "+f"(chain[i][2]), "+f"(chain[i][3])::"memory");
    }
#pragma unroll
    for (int j = 0; j < fragments_n; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[0][j][r] += chain[j][r];
    }
  }

 private:
  /// What the tensor cores do not see of x, scaled, and rounded to what they see.
  __device__ static float low(float x) {
    const float rest = (x - __uint_as_float(__float_as_uint(x) & 0xffffe000u)) * split_scale;
    return __uint_as_float(__float_as_uint(rest) + 0x1000u);
  }
};

}  // namespace lamina::cuda::implicit_gemm
