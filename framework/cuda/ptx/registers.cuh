#pragma once

#include <cstdint>

/// Registers change hands between warpgroups (sm_90a), and stay where asynchronous instructions, or nothing yet, use
/// them. PTX ISA, "setmaxnreg".
namespace lamina::cuda::ptx {

/// By a whole warpgroup: keeps this many registers a thread, which is fewer than it has.
template <int registers>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Waits until there are so many.
template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Keeps the compiler from reading or writing these before, or after, this point: it does not know that wgmma goes on
/// using them until it has been waited for.
template <int count>
__device__ __forceinline__ void pin(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int count>
__device__ __forceinline__ void pin(int (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
__device__ __forceinline__ void pin(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c) {
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c)::"memory");
}

/// What is computed from it stays where it is: the compiler may not do it earlier, once for all, and keep the results.
__device__ __forceinline__ void pin(int& x) { asm volatile("" : "+r"(x)); }
template <class T>
__device__ __forceinline__ void pin(const T*& x) {
  asm volatile("" : "+l"(x));
}

}  // namespace lamina::cuda::ptx
