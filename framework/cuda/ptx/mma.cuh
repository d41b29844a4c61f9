#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/ptx/tf32.h"

/// mma.sync: one warp multiplies, from registers. PTX ISA, "mma.m16n8k8 / m16n8k16 fragments". sm_80.
namespace lamina::cuda::ptx {

/// d = a b + c over 32 bytes of K: a [16, K], b [K, 8], d and c [16, 8], in the fragments of the PTX ISA. T: __half,
/// __nv_bfloat16 or Tf32.
template <class T>
__device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                    const float (&c)[4]) {
#define LAMINA_MMA(shape_and_types)                                                                                \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n" \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]))
  if constexpr (std::is_same_v<T, __half>) {
    LAMINA_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    LAMINA_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else {
    static_assert(std::is_same_v<T, Tf32>, "an operand type of the tensor cores");
    LAMINA_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef LAMINA_MMA
}

/// Rounded to what the tensor cores see of it, to nearest; Inf and NaN stay. PTX ISA, "cvt".
__device__ __forceinline__ std::uint32_t nearest_tf32(float x) {
  std::uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

}  // namespace lamina::cuda::ptx
