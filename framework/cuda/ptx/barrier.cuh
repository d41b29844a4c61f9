#pragma once

#include <cstdint>

/// Hopper's asynchronous machinery as inline PTX: mbarriers, bulk copies, register reallocation.
/// PTX ISA 8.x, chapters "mbarrier", "cp.async.bulk", "setmaxnreg".
namespace lamina::cuda::first_layer {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the asynchronous proxy.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Every thread speaks for itself: one lane behind a __syncwarp would do, but costs the same and racecheck could not
/// see that it stands for its warp.
__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// Waits until the phase of parity `parity` has completed.
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2;\n"
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity), "r"(1000000)  // nanoseconds that the hardware may suspend the thread before it asks again
      : "memory");
}

/// Copies 16-byte-aligned global memory to shared memory; `barrier` counts the bytes as they land.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/// Copies shared memory, on which every writer has called fence_async_proxy, to global memory, both 16-byte aligned.
/// Returns when the shared memory has been read.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;" ::"l"(global),
      "r"(shared_address(shared)), "r"(bytes)
      : "memory");
}

/// Copies 4 bytes; this thread's copies so far arrive at a barrier when they have landed.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ __forceinline__ void arrive_when_copied(std::uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Stores 4, 8 or 16 bytes by shared-memory address, so that the compiler carries 32 bits, and without a branch.
template <class V>
__device__ __forceinline__ void store_shared(std::uint32_t address, V v, bool wanted) {
  static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "what one store takes");
  // Copied as a whole: read word by word through a pointer, a value of 8 bytes went through local memory.
  std::uint32_t word[sizeof(V) / 4];
  memcpy(word, &v, sizeof(V));
  const auto p = static_cast<int>(wanted);
  if constexpr (sizeof(V) == 4) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p st.shared.b32 [%0], %1;\n}\n" ::"r"(address),
                 "r"(word[0]), "r"(p)
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

/// Loads 2, 4 or 16 bytes by shared-memory address.
template <class V>
__device__ __forceinline__ V load_shared(std::uint32_t address) {
  static_assert(sizeof(V) == 2 || sizeof(V) == 4 || sizeof(V) == 16, "what one load gives");
  V v;
  if constexpr (sizeof(V) == 2) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(reinterpret_cast<std::uint16_t&>(v)) : "r"(address) : "memory");
  } else if constexpr (sizeof(V) == 4) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(reinterpret_cast<std::uint32_t&>(v)) : "r"(address) : "memory");
  } else {
    auto* word = reinterpret_cast<std::uint32_t*>(&v);
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(address)
                 : "memory");
  }
  return v;
}

/// Shared memory written by ordinary stores is read next by wgmma.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int registers>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Joins one warpgroup; id 0 belongs to __syncthreads.
__device__ __forceinline__ void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

}  // namespace lamina::cuda::first_layer
