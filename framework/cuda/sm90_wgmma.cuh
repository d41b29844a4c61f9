#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

/// wgmma: one warpgroup multiplies A [64 pixels, 16] by B [16, columns], both read from shared memory through
/// descriptors, into registers: thread (warp w, lane 4g + t) holds rows 16w + g and 16w + g + 8 of columns
/// 8j + 2t and 8j + 2t + 1 in d[4j .. 4j + 3]. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
namespace lamina::cuda::sm90 {

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

template <class T, int columns>
struct Wgmma;

// clang-format off

template <>
struct Wgmma<__half, 32> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 16 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__half, 48> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 24 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23}, "
        "%24, %25, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__half, 64> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 32 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23]),
          "+f"(d[first + 24]), "+f"(d[first + 25]), "+f"(d[first + 26]), "+f"(d[first + 27]),
          "+f"(d[first + 28]), "+f"(d[first + 29]), "+f"(d[first + 30]), "+f"(d[first + 31])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__half, 96> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 48 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "%48, %49, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23]),
          "+f"(d[first + 24]), "+f"(d[first + 25]), "+f"(d[first + 26]), "+f"(d[first + 27]),
          "+f"(d[first + 28]), "+f"(d[first + 29]), "+f"(d[first + 30]), "+f"(d[first + 31]),
          "+f"(d[first + 32]), "+f"(d[first + 33]), "+f"(d[first + 34]), "+f"(d[first + 35]),
          "+f"(d[first + 36]), "+f"(d[first + 37]), "+f"(d[first + 38]), "+f"(d[first + 39]),
          "+f"(d[first + 40]), "+f"(d[first + 41]), "+f"(d[first + 42]), "+f"(d[first + 43]),
          "+f"(d[first + 44]), "+f"(d[first + 45]), "+f"(d[first + 46]), "+f"(d[first + 47])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__nv_bfloat16, 32> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 16 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__nv_bfloat16, 48> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 24 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23}, "
        "%24, %25, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__nv_bfloat16, 64> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 32 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23]),
          "+f"(d[first + 24]), "+f"(d[first + 25]), "+f"(d[first + 26]), "+f"(d[first + 27]),
          "+f"(d[first + 28]), "+f"(d[first + 29]), "+f"(d[first + 30]), "+f"(d[first + 31])
        : "l"(a), "l"(b));
  }
};

template <>
struct Wgmma<__nv_bfloat16, 96> {
  /// d[first ..] += A * B
  template <int first = 0, int count>
  __device__ __forceinline__ static void run(float (&d)[count], std::uint64_t a, std::uint64_t b) {
    static_assert(first + 48 <= count);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "%48, %49, 1, 1, 1, 0, 0;\n"
        : "+f"(d[first + 0]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]),
          "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7]),
          "+f"(d[first + 8]), "+f"(d[first + 9]), "+f"(d[first + 10]), "+f"(d[first + 11]),
          "+f"(d[first + 12]), "+f"(d[first + 13]), "+f"(d[first + 14]), "+f"(d[first + 15]),
          "+f"(d[first + 16]), "+f"(d[first + 17]), "+f"(d[first + 18]), "+f"(d[first + 19]),
          "+f"(d[first + 20]), "+f"(d[first + 21]), "+f"(d[first + 22]), "+f"(d[first + 23]),
          "+f"(d[first + 24]), "+f"(d[first + 25]), "+f"(d[first + 26]), "+f"(d[first + 27]),
          "+f"(d[first + 28]), "+f"(d[first + 29]), "+f"(d[first + 30]), "+f"(d[first + 31]),
          "+f"(d[first + 32]), "+f"(d[first + 33]), "+f"(d[first + 34]), "+f"(d[first + 35]),
          "+f"(d[first + 36]), "+f"(d[first + 37]), "+f"(d[first + 38]), "+f"(d[first + 39]),
          "+f"(d[first + 40]), "+f"(d[first + 41]), "+f"(d[first + 42]), "+f"(d[first + 43]),
          "+f"(d[first + 44]), "+f"(d[first + 45]), "+f"(d[first + 46]), "+f"(d[first + 47])
        : "l"(a), "l"(b));
  }
};
// clang-format on

}  // namespace lamina::cuda::sm90
