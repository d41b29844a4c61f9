#pragma once

#include <cstdint>
#include <type_traits>

namespace lamina::cuda::ptx {

/// The lowest bytes of four words, in order.
__device__ __forceinline__ std::uint32_t lowest_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                      std::uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

/// sum + the products of four numbers of type T, i8 or u8, and four of i8. PTX ISA, "dp4a".
template <class T>
__device__ __forceinline__ int dot_four(std::uint32_t x, int w, int sum) {
  if constexpr (std::is_signed_v<T>) return __dp4a(static_cast<int>(x), w, sum);
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
  return result;
}

}  // namespace lamina::cuda::ptx
