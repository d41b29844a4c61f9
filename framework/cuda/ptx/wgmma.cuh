#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/tf32.h"

#ifndef LAMINA_HOPPER
#error \
    "A source that uses wgmma belongs to the target lamina_hopper (the name *.hopper.cu), or would have no code for 90a."
#endif

/// wgmma: one warpgroup multiplies A [64, K] by B [K, n], 32 bytes of K at a time, asynchronously, into registers:
/// thread (warp w, lane 4g + t) holds rows 16w + g and 16w + g + 8 of columns 8j + 2t and 8j + 2t + 1 in d[4j .. 4j +
/// 3]. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
namespace lamina::cuda::ptx {

// wgmma exists for sm_90a and nothing else, not even for sm_90.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool wgmma_compiled = true;
#else
inline constexpr bool wgmma_compiled = false;
#endif

/// Registers written before are visible to the wgmma that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most `pending` of the committed groups still run.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

enum class Swizzle : std::uint64_t { none = 0, bytes_128 = 1 };

/// Where an operand lies in shared memory, K-major: `low` is its address / 16, `stride` the bytes from eight rows to
/// the next eight. Without swizzle the upper half of `low` is the distance / 16 along K, between core matrices of 8
/// rows of 16 bytes; with it rows have 128 bytes. Adding to a descriptor moves it by units of 16 bytes.
template <Swizzle swizzle, int stride>
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t low) {
  static_assert(stride % 16 == 0, "descriptors count 16 bytes");
  return low | std::uint64_t{stride / 16} << 32 | static_cast<std::uint64_t>(swizzle) << 62;
}
/// Rows of 128 bytes under the 128-byte swizzle (tensor_core/operand_rows.h), one after the other from `address` on.
__device__ __forceinline__ std::uint64_t rows_descriptor(std::uint32_t address) {
  return descriptor<Swizzle::bytes_128, 1024>((address & 0x3ffffu) >> 4);
}
/// The same with `stride` bytes from eight rows to the next eight. Neither has to be a multiple of 1024: it is
/// addresses that are swizzled, not places in the operand.
__device__ __forceinline__ std::uint64_t rows_descriptor(std::uint32_t address, std::uint32_t stride) {
  return ((address & 0x3ffffu) >> 4) | std::uint64_t{stride / 16} << 32 |
         static_cast<std::uint64_t>(Swizzle::bytes_128) << 62;
}

// Inline assembly wants every register by name. Of the instruction with n columns: the names of its n / 2 accumulators,
// the accumulators, and the names of the operands behind them.
// clang-format off
#define LAMINA_NAMES_8 "%0, %1, %2, %3"
#define LAMINA_NAMES_16 LAMINA_NAMES_8 ", %4, %5, %6, %7"
#define LAMINA_NAMES_32 LAMINA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LAMINA_NAMES_48 LAMINA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LAMINA_NAMES_64 LAMINA_NAMES_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LAMINA_NAMES_80 LAMINA_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LAMINA_NAMES_96 LAMINA_NAMES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LAMINA_NAMES_112 LAMINA_NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LAMINA_NAMES_128 LAMINA_NAMES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LAMINA_NAMES_144 LAMINA_NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LAMINA_NAMES_160 LAMINA_NAMES_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LAMINA_NAMES_176 LAMINA_NAMES_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LAMINA_NAMES_192 LAMINA_NAMES_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LAMINA_NAMES_208 LAMINA_NAMES_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LAMINA_NAMES_224 LAMINA_NAMES_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define LAMINA_NAMES_240 LAMINA_NAMES_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define LAMINA_NAMES_256 LAMINA_NAMES_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define LAMINA_D4(r, i) r(d[i]), r(d[i + 1]), r(d[i + 2]), r(d[i + 3])
#define LAMINA_D_8(r) LAMINA_D4(r, 0)
#define LAMINA_D_16(r) LAMINA_D_8(r), LAMINA_D4(r, 4)
#define LAMINA_D_32(r) LAMINA_D_16(r), LAMINA_D4(r, 8), LAMINA_D4(r, 12)
#define LAMINA_D_48(r) LAMINA_D_32(r), LAMINA_D4(r, 16), LAMINA_D4(r, 20)
#define LAMINA_D_64(r) LAMINA_D_48(r), LAMINA_D4(r, 24), LAMINA_D4(r, 28)
#define LAMINA_D_80(r) LAMINA_D_64(r), LAMINA_D4(r, 32), LAMINA_D4(r, 36)
#define LAMINA_D_96(r) LAMINA_D_80(r), LAMINA_D4(r, 40), LAMINA_D4(r, 44)
#define LAMINA_D_112(r) LAMINA_D_96(r), LAMINA_D4(r, 48), LAMINA_D4(r, 52)
#define LAMINA_D_128(r) LAMINA_D_112(r), LAMINA_D4(r, 56), LAMINA_D4(r, 60)
#define LAMINA_D_144(r) LAMINA_D_128(r), LAMINA_D4(r, 64), LAMINA_D4(r, 68)
#define LAMINA_D_160(r) LAMINA_D_144(r), LAMINA_D4(r, 72), LAMINA_D4(r, 76)
#define LAMINA_D_176(r) LAMINA_D_160(r), LAMINA_D4(r, 80), LAMINA_D4(r, 84)
#define LAMINA_D_192(r) LAMINA_D_176(r), LAMINA_D4(r, 88), LAMINA_D4(r, 92)
#define LAMINA_D_208(r) LAMINA_D_192(r), LAMINA_D4(r, 96), LAMINA_D4(r, 100)
#define LAMINA_D_224(r) LAMINA_D_208(r), LAMINA_D4(r, 104), LAMINA_D4(r, 108)
#define LAMINA_D_240(r) LAMINA_D_224(r), LAMINA_D4(r, 112), LAMINA_D4(r, 116)
#define LAMINA_D_256(r) LAMINA_D_240(r), LAMINA_D4(r, 120), LAMINA_D4(r, 124)
#define LAMINA_WGMMA_SHAPES(each) \
  each(8, "%4", "%5", "%6", "%7", "%8", "%9") \
  each(16, "%8", "%9", "%10", "%11", "%12", "%13") \
  each(32, "%16", "%17", "%18", "%19", "%20", "%21") \
  each(48, "%24", "%25", "%26", "%27", "%28", "%29") \
  each(64, "%32", "%33", "%34", "%35", "%36", "%37") \
  each(80, "%40", "%41", "%42", "%43", "%44", "%45") \
  each(96, "%48", "%49", "%50", "%51", "%52", "%53") \
  each(112, "%56", "%57", "%58", "%59", "%60", "%61") \
  each(128, "%64", "%65", "%66", "%67", "%68", "%69") \
  each(144, "%72", "%73", "%74", "%75", "%76", "%77") \
  each(160, "%80", "%81", "%82", "%83", "%84", "%85") \
  each(176, "%88", "%89", "%90", "%91", "%92", "%93") \
  each(192, "%96", "%97", "%98", "%99", "%100", "%101") \
  each(208, "%104", "%105", "%106", "%107", "%108", "%109") \
  each(224, "%112", "%113", "%114", "%115", "%116", "%117") \
  each(240, "%120", "%121", "%122", "%123", "%124", "%125") \
  each(256, "%128", "%129", "%130", "%131", "%132", "%133")

#define LAMINA_WGMMA(register, n, types, a_names, b_name, p_name, numbers, ...)                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_name ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n types   \
               " {" LAMINA_NAMES_##n "}, " a_names ", " b_name ", p" numbers ";\n}\n"                         \
               : LAMINA_D_##n(register)                                                                       \
               : __VA_ARGS__, "l"(b), "r"(static_cast<int>(accumulate)))

/// d = a b + (accumulate ? d : 0), n = 2 * count, of operands T: __half, __nv_bfloat16 or Tf32. Both in shared memory.
template <class T, int count>
__device__ __forceinline__ void wgmma(float (&d)[count], std::uint64_t a, std::uint64_t b, bool accumulate) {
  static_assert(count == 4 || (count % 8 == 0 && count <= 128), "a number of columns in the list above");
#define LAMINA_CASE(n, a_name, b_name, p_name, ...)                                                     \
  if constexpr (count == n / 2 && std::is_same_v<T, __half>)                                            \
    LAMINA_WGMMA("+f", n, "k16.f32.f16.f16", a_name, b_name, p_name, ", 1, 1, 0, 0", "l"(a));           \
  if constexpr (count == n / 2 && std::is_same_v<T, __nv_bfloat16>)                                     \
    LAMINA_WGMMA("+f", n, "k16.f32.bf16.bf16", a_name, b_name, p_name, ", 1, 1, 0, 0", "l"(a));         \
  if constexpr (count == n / 2 && std::is_same_v<T, Tf32>)                                              \
    LAMINA_WGMMA("+f", n, "k8.f32.tf32.tf32", a_name, b_name, p_name, ", 1, 1", "l"(a));
  LAMINA_WGMMA_SHAPES(LAMINA_CASE)
#undef LAMINA_CASE
}

/// The same of whole numbers: a of i8, b of T, std::uint8_t or std::int8_t.
template <class T, int count>
__device__ __forceinline__ void wgmma(int (&d)[count], std::uint64_t a, std::uint64_t b, bool accumulate) {
  static_assert(count % 16 == 0 && count <= 128, "a number of columns in the list above");
#define LAMINA_CASE(n, a_name, b_name, p_name, ...)                                    \
  if constexpr (count == n / 2 && std::is_same_v<T, std::uint8_t>)                     \
    LAMINA_WGMMA("+r", n, "k32.s32.s8.u8", a_name, b_name, p_name, "", "l"(a));        \
  if constexpr (count == n / 2 && std::is_same_v<T, std::int8_t>)                      \
    LAMINA_WGMMA("+r", n, "k32.s32.s8.s8", a_name, b_name, p_name, "", "l"(a));
  LAMINA_WGMMA_SHAPES(LAMINA_CASE)
#undef LAMINA_CASE
}

/// The same with a in registers, as TF32: a warp's 16 rows in the fragment that ldmatrix makes.
template <int count>
__device__ __forceinline__ void wgmma(float (&d)[count], const std::uint32_t (&a)[4], std::uint64_t b,
                                      bool accumulate) {
  static_assert(count == 4 || (count % 8 == 0 && count <= 128), "a number of columns in the list above");
#define LAMINA_CASE(n, a0, a1, a2, a3, b_name, p_name)                                                             \
  if constexpr (count == n / 2)                                                                                    \
    LAMINA_WGMMA("+f", n, "k8.f32.tf32.tf32", "{" a0 ", " a1 ", " a2 ", " a3 "}", b_name, p_name, ", 1, 1", "r"(a[0]), \
                 "r"(a[1]), "r"(a[2]), "r"(a[3]));
  LAMINA_WGMMA_SHAPES(LAMINA_CASE)
#undef LAMINA_CASE
}
// clang-format on

}  // namespace lamina::cuda::ptx
