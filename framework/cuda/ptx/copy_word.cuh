#pragma once

#include <cstdint>

namespace lamina::cuda::ptx {

/// Starts a copy (cp.async) of the first `bytes`, 1 to 4, of a word; behind them it writes zeros and reads nothing.
__device__ __forceinline__ void copy_async_word(std::uint32_t destination, const void* source, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source), "r"(bytes) : "memory");
}

}  // namespace lamina::cuda::ptx
