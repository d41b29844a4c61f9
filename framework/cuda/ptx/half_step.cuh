#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

/// What mma.cuh and shared.cuh have, over half as much of K. sm_80.
namespace lamina::cuda::ptx {

/// d = a b + c over 16 bytes of K, of f16 or bf16: a [16, K] and b [K, 8] are the first registers of mma's fragments.
/// PTX ISA, "mma.m16n8k8 fragments".
template <class T>
__device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b, const float (&c)[4]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>, "an operand type of 16 bits");
#define LAMINA_MMA(types)                                                                                         \
  asm("mma.sync.aligned.m16n8k8.row.col.f32." types ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};\n" \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                            \
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]))
  if constexpr (std::is_same_v<T, __half>) {
    LAMINA_MMA("f16.f16");
  } else {
    LAMINA_MMA("bf16.bf16");
  }
#undef LAMINA_MMA
}

/// Loads two matrices, whose rows lanes 0 .. 15 name.
__device__ __forceinline__ void load_matrices(std::uint32_t (&value)[2], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(value[0]), "=r"(value[1])
               : "r"(address)
               : "memory");
}

}  // namespace lamina::cuda::ptx
