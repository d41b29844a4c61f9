#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#ifndef LAMINA_HOPPER
#error \
    "A source that uses wgmma belongs to the target lamina_hopper (the name *.hopper.cu), or would have no code for 90a."
#endif

/// wgmma: one warpgroup multiplies A [64 pixels, 16] by B [16, columns], both read from shared memory through
/// descriptors, into registers: thread (warp w, lane 4g + t) holds rows 16w + g and 16w + g + 8 of columns
/// 8j + 2t and 8j + 2t + 1 in d[4j .. 4j + 3]. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
namespace lamina::cuda::first_layer {

/// K-major operand without swizzle: core matrices of 8 rows x 16 bytes lie in 128 consecutive bytes;
/// `low` holds the first one's address and the distance to the next along K (both in 16 bytes, the latter in the
/// upper half); the next 8 rows follow 128 bytes on. The rows of A may overlap: that is what spares the unfolding.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t low) { return (std::uint64_t{128 / 16} << 32) | low; }

/// Registers written before are visible to the wgmma that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

/// Keeps the compiler from reading or writing accumulators while wgmma owns them.
template <int count>
__device__ __forceinline__ void pin(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// d = A * B + (accumulate ? d : 0), for operands T and one of the shapes below.
template <class T, int columns>
struct Wgmma;

// Inline assembly wants every register by name: lists of outputs, and of their numbers in the template.
// clang-format off
#define LAMINA_WGMMA_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                           "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define LAMINA_WGMMA_D16(i) LAMINA_WGMMA_D8(i), LAMINA_WGMMA_D8(i + 8)
#define LAMINA_WGMMA_R16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LAMINA_WGMMA_R24 LAMINA_WGMMA_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LAMINA_WGMMA_R32 LAMINA_WGMMA_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LAMINA_WGMMA_R48 LAMINA_WGMMA_R32 ", %32, %33, %34, %35, %36, %37, %38, %39" \
                                          ", %40, %41, %42, %43, %44, %45, %46, %47"

#define LAMINA_WGMMA(T, type, columns, registers, a_number, b_number, accumulate_number, ...)                          \
  template <>                                                                                                          \
  struct Wgmma<T, columns> {                                                                                           \
    __device__ __forceinline__ static void run(float (&d)[columns / 2], std::uint64_t a, std::uint64_t b,              \
                                               bool accumulate) {                                                      \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate_number ", 0;\n"                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type                               \
                   " {" registers "}, " a_number ", " b_number ", p, 1, 1, 0, 0;\n}\n"                                 \
                   : __VA_ARGS__                                                                                       \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                               \
    }                                                                                                                  \
  }
#define LAMINA_WGMMA_SHAPES(T, type)                                                                                   \
  LAMINA_WGMMA(T, type, 32, LAMINA_WGMMA_R16, "%16", "%17", "%18", LAMINA_WGMMA_D16(0));                               \
  LAMINA_WGMMA(T, type, 48, LAMINA_WGMMA_R24, "%24", "%25", "%26", LAMINA_WGMMA_D16(0), LAMINA_WGMMA_D8(16));          \
  LAMINA_WGMMA(T, type, 64, LAMINA_WGMMA_R32, "%32", "%33", "%34", LAMINA_WGMMA_D16(0), LAMINA_WGMMA_D16(16));         \
  LAMINA_WGMMA(T, type, 96, LAMINA_WGMMA_R48, "%48", "%49", "%50", LAMINA_WGMMA_D16(0), LAMINA_WGMMA_D16(16),          \
               LAMINA_WGMMA_D16(32))

LAMINA_WGMMA_SHAPES(__half, "f16");
LAMINA_WGMMA_SHAPES(__nv_bfloat16, "bf16");
// clang-format on

#undef LAMINA_WGMMA_SHAPES
#undef LAMINA_WGMMA
#undef LAMINA_WGMMA_R48
#undef LAMINA_WGMMA_R32
#undef LAMINA_WGMMA_R24
#undef LAMINA_WGMMA_R16
#undef LAMINA_WGMMA_D16
#undef LAMINA_WGMMA_D8

}  // namespace lamina::cuda::first_layer
