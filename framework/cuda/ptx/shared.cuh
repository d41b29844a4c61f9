#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

/// Shared memory by its 32-bit address: loads, stores, matrices, and the fence before the asynchronous proxy reads.
/// PTX ISA, "ld", "st", "ldmatrix", "stmatrix", "fence.proxy.async".
namespace lamina::cuda::ptx {

/// Address of a shared-memory object as these instructions want it.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Stores an f32, or 8 or 16 bytes, if `wanted`, without a branch.
template <class V>
__device__ __forceinline__ void store_shared(std::uint32_t address, V v, bool wanted) {
  static_assert(std::is_same_v<V, float> || sizeof(V) == 8 || sizeof(V) == 16, "what one store takes");
  // Copied as a whole: read word by word through a pointer, a value of 8 bytes went through local memory.
  std::uint32_t word[sizeof(V) / 4];
  memcpy(word, &v, sizeof(V));
  const auto p = static_cast<int>(wanted);
  if constexpr (std::is_same_v<V, float>) {
    // Not as a word: accumulators of wgmma that are stored as words become integers back to where they are summed, and
    // ptxas moves all of them to other registers, and waits, before and after each group of products.
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p st.shared.f32 [%0], %1;\n}\n" ::"r"(address), "f"(v),
                 "r"(p)
                 : "memory");
  } else if constexpr (sizeof(V) == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p st.shared.v2.b32 [%0], {%1, %2};\n}\n" ::"r"(address),
                 "r"(word[0]), "r"(word[1]), "r"(p)
                 : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n}\n" ::"r"(address),
        "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(p)
        : "memory");
  }
}
__device__ __forceinline__ void store_shared(std::uint32_t address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint16_t v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(v) : "memory");
}

/// Loads 2, 4, 8 or 16 bytes.
template <class V>
__device__ __forceinline__ V load_shared(std::uint32_t address) {
  static_assert(sizeof(V) == 2 || sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "what one load gives");
  V v;
  auto* word = reinterpret_cast<std::uint32_t*>(&v);
  if constexpr (sizeof(V) == 2) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(reinterpret_cast<std::uint16_t&>(v)) : "r"(address) : "memory");
  } else if constexpr (sizeof(V) == 4) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word[0]) : "r"(address) : "memory");
  } else if constexpr (sizeof(V) == 8) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "r"(address) : "memory");
  } else {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(address)
                 : "memory");
  }
  return v;
}

/// Loads two f32 of what came by asynchronous copies alone: ordinary stores may move past this.
__device__ __forceinline__ float2 load_shared_pair(std::uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}

/// A byte that nobody writes.
__device__ __forceinline__ std::uint32_t load_shared_byte(std::uint32_t address) {
  std::uint32_t byte;
  asm("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(address));
  return byte;
}

/// Loads four matrices of 8 rows of 16 bytes: lanes 8i .. 8i + 7 name the rows of matrix i, whose row g, word t lands
/// in value[i] of lane 4g + t. sm_75.
__device__ __forceinline__ void load_matrices(std::uint32_t (&value)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address)
               : "memory");
}

/// The same with each matrix, of 16-bit elements, transposed: column g of matrix i, words of two rows.
__device__ __forceinline__ void load_transposed(std::uint32_t (&value)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address)
               : "memory");
}

/// Stores four transposed 8 x 8 matrices of 16-bit elements: lane 8i + r names where column r of matrix i goes. sm_90.
__device__ __forceinline__ void store_transposed(std::uint32_t address, const std::uint32_t (&value)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value[0]),
               "r"(value[1]), "r"(value[2]), "r"(value[3])
               : "memory");
}

/// What this thread has written to shared memory, by cp.async too, is read next by wgmma or TMA. sm_90.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace lamina::cuda::ptx
