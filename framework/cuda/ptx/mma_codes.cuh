#pragma once

#include <cstdint>
#include <type_traits>

/// mma.sync on whole numbers. PTX ISA, "mma.m16n8k32 fragments". sm_80.
namespace lamina::cuda::ptx {

/// d = a b + c over 32 bytes of K, a of T, u8 or i8, and b of i8.
template <class T>
__device__ __forceinline__ void mma(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                    const int (&c)[4]) {
#define LAMINA_MMA(type)                                                              \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." type                                   \
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n" \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
  if constexpr (std::is_signed_v<T>) {
    LAMINA_MMA("s8");
  } else {
    LAMINA_MMA("u8");
  }
#undef LAMINA_MMA
}

}  // namespace lamina::cuda::ptx
