#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/tensor_core/operand_rows.h"

/// wgmma with both operands in shared memory, K-major rows of 128 bytes under the 128-byte swizzle: 64 filters by n
/// pixels, for every n that is a multiple of 16, and for 8. Thread (warp w, lane 4g + t) holds filters 16w + g and
/// 16w + g + 8 of pixels 8j + 2t and 8j + 2t + 1 in d[4j .. 4j + 3].
/// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
namespace lamina::cuda::channels_last {

/// f32 storage, rounded to TF32 as it is copied.
struct Tf32 {};
/// f32 storage, multiplied as three products of TF32 words.
struct SplitTf32 {};
/// f32 storage, multiplied as f16 with a power of two for each row of 64 channels.
struct ScaledF16 {};
/// f32 storage, multiplied as three products of f16 words, with a power of two for each row of 32 channels.
struct ScaledPairs {};

/// Where an operand's rows begin: address / 16, 1,024 bytes from eight rows to the next eight, 128-byte swizzle.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address) {
  return (address & 0x3ffffu) >> 4 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

template <class T, int n>
struct Product;

/// The same with a in registers, as TF32: a warp's 16 filters in the fragment that ldmatrix makes.
template <int n>
struct RegisterProduct;

// clang-format off
// The n / 2 accumulators as they appear in the instruction and in its operand list, eight at a time.
#define LAMINA_D8 "%0, %1, %2, %3"
#define LAMINA_D16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define LAMINA_D32 LAMINA_D16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LAMINA_D48 LAMINA_D32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LAMINA_D64 LAMINA_D48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LAMINA_D80 LAMINA_D64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LAMINA_D96 LAMINA_D80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LAMINA_D112 LAMINA_D96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LAMINA_D128 LAMINA_D112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LAMINA_D144 LAMINA_D128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LAMINA_D160 LAMINA_D144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LAMINA_D176 LAMINA_D160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LAMINA_D192 LAMINA_D176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LAMINA_D208 LAMINA_D192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LAMINA_D224 LAMINA_D208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define LAMINA_D240 LAMINA_D224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define LAMINA_D256 LAMINA_D240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define LAMINA_O(i) "+f"(d[8*i]), "+f"(d[8*i+1]), "+f"(d[8*i+2]), "+f"(d[8*i+3]), "+f"(d[8*i+4]), "+f"(d[8*i+5]), \
  "+f"(d[8*i+6]), "+f"(d[8*i+7])
#define LAMINA_O8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define LAMINA_O16 LAMINA_O(0)
#define LAMINA_O32 LAMINA_O16, LAMINA_O(1)
#define LAMINA_O48 LAMINA_O32, LAMINA_O(2)
#define LAMINA_O64 LAMINA_O48, LAMINA_O(3)
#define LAMINA_O80 LAMINA_O64, LAMINA_O(4)
#define LAMINA_O96 LAMINA_O80, LAMINA_O(5)
#define LAMINA_O112 LAMINA_O96, LAMINA_O(6)
#define LAMINA_O128 LAMINA_O112, LAMINA_O(7)
#define LAMINA_O144 LAMINA_O128, LAMINA_O(8)
#define LAMINA_O160 LAMINA_O144, LAMINA_O(9)
#define LAMINA_O176 LAMINA_O160, LAMINA_O(10)
#define LAMINA_O192 LAMINA_O176, LAMINA_O(11)
#define LAMINA_O208 LAMINA_O192, LAMINA_O(12)
#define LAMINA_O224 LAMINA_O208, LAMINA_O(13)
#define LAMINA_O240 LAMINA_O224, LAMINA_O(14)
#define LAMINA_O256 LAMINA_O240, LAMINA_O(15)
#define LAMINA_ISSUE(n, shape_and_types, a_name, b_name, p_name, transposes)                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_name ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n      \
               shape_and_types " {" LAMINA_D##n "}, " a_name ", " b_name ", p, 1, 1" transposes ";\n}\n"      \
               : LAMINA_O##n                                                                                 \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define LAMINA_PRODUCT(n, a_name, b_name, p_name)                                                            \
  template <class T>                                                                                         \
  struct Product<T, n> {                                                                                     \
    /* d = a b + (accumulate ? d : 0) over 32 bytes of K. Runs on after it returns. */                       \
    __device__ __forceinline__ static void issue(float (&d)[n / 2], std::uint64_t a, std::uint64_t b,        \
                                                 bool accumulate) {                                          \
      if constexpr (std::is_same_v<T, __half>) {                                                             \
        LAMINA_ISSUE(n, "k16.f32.f16.f16", a_name, b_name, p_name, ", 0, 0");                                \
      } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {                                               \
        LAMINA_ISSUE(n, "k16.f32.bf16.bf16", a_name, b_name, p_name, ", 0, 0");                              \
      } else {                                                                                               \
        LAMINA_ISSUE(n, "k8.f32.tf32.tf32", a_name, b_name, p_name, "");                                     \
      }                                                                                                      \
    }                                                                                                        \
  }

LAMINA_PRODUCT(8, "%4", "%5", "%6");
LAMINA_PRODUCT(16, "%8", "%9", "%10");
LAMINA_PRODUCT(32, "%16", "%17", "%18");
LAMINA_PRODUCT(48, "%24", "%25", "%26");
LAMINA_PRODUCT(64, "%32", "%33", "%34");
LAMINA_PRODUCT(80, "%40", "%41", "%42");
LAMINA_PRODUCT(96, "%48", "%49", "%50");
LAMINA_PRODUCT(112, "%56", "%57", "%58");
LAMINA_PRODUCT(128, "%64", "%65", "%66");
LAMINA_PRODUCT(144, "%72", "%73", "%74");
LAMINA_PRODUCT(160, "%80", "%81", "%82");
LAMINA_PRODUCT(176, "%88", "%89", "%90");
LAMINA_PRODUCT(192, "%96", "%97", "%98");
LAMINA_PRODUCT(208, "%104", "%105", "%106");
LAMINA_PRODUCT(224, "%112", "%113", "%114");
LAMINA_PRODUCT(240, "%120", "%121", "%122");
LAMINA_PRODUCT(256, "%128", "%129", "%130");

#define LAMINA_REGISTER_PRODUCT(n, a0, a1, a2, a3, b_name, p_name)                                           \
  template <>                                                                                                \
  struct RegisterProduct<n> {                                                                                \
    __device__ __forceinline__ static void issue(float (&d)[n / 2], const unsigned (&a)[4], std::uint64_t b, \
                                                 bool accumulate) {                                          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_name ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n  \
                   "k8.f32.tf32.tf32 {" LAMINA_D##n "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b_name            \
                   ", p, 1, 1;\n}\n"                                                                         \
                   : LAMINA_O##n                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate))); \
    }                                                                                                        \
  }

LAMINA_REGISTER_PRODUCT(64, "%32", "%33", "%34", "%35", "%36", "%37");
LAMINA_REGISTER_PRODUCT(96, "%48", "%49", "%50", "%51", "%52", "%53");
LAMINA_REGISTER_PRODUCT(128, "%64", "%65", "%66", "%67", "%68", "%69");

#undef LAMINA_D8
#undef LAMINA_D16
#undef LAMINA_D32
#undef LAMINA_D48
#undef LAMINA_D64
#undef LAMINA_D80
#undef LAMINA_D96
#undef LAMINA_D112
#undef LAMINA_D128
#undef LAMINA_D144
#undef LAMINA_D160
#undef LAMINA_D176
#undef LAMINA_D192
#undef LAMINA_D208
#undef LAMINA_D224
#undef LAMINA_D240
#undef LAMINA_D256
#undef LAMINA_O
#undef LAMINA_O8
#undef LAMINA_O16
#undef LAMINA_O32
#undef LAMINA_O48
#undef LAMINA_O64
#undef LAMINA_O80
#undef LAMINA_O96
#undef LAMINA_O112
#undef LAMINA_O128
#undef LAMINA_O144
#undef LAMINA_O160
#undef LAMINA_O176
#undef LAMINA_O192
#undef LAMINA_O208
#undef LAMINA_O224
#undef LAMINA_O240
#undef LAMINA_O256
#undef LAMINA_ISSUE
#undef LAMINA_PRODUCT
#undef LAMINA_REGISTER_PRODUCT
// clang-format on

/// Pixels of the widest instruction that ptxas accepts with the registers a thread has at the launch.
template <int groups>
inline constexpr int widest = groups == 4   ? 128
                              : groups == 3 ? 192
                                            : 256;

template <class T, int n, int most>
__device__ __forceinline__ void issue(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (n <= most) {
    Product<T, n>::issue(d, a, b, accumulate);
  } else {
    constexpr int first = (n / 2 + 15) / 16 * 16;
    Product<T, first>::issue(reinterpret_cast<float(&)[first / 2]>(d[0]), a, b, accumulate);
    Product<T, n - first>::issue(reinterpret_cast<float(&)[(n - first) / 2]>(d[first / 2]), a,
                                 b + static_cast<unsigned>(first * step_bytes / 16), accumulate);
  }
}

}  // namespace lamina::cuda::channels_last
