#pragma once

#include <cstdint>

namespace lamina::cuda::ptx {

/// The lowest bytes of four words, in order.
__device__ __forceinline__ std::uint32_t lowest_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                      std::uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

}  // namespace lamina::cuda::ptx
