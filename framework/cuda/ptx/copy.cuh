#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/shared.cuh"

/// Asynchronous copies by each thread (cp.async, sm_80) and of runs of memory (TMA without a tensor map, sm_90).
/// PTX ISA, "cp.async", "cp.async.bulk". Copies by tensor map are in tensor_copy.cuh.
namespace lamina::cuda::ptx {

/// 16 bytes of memory that nobody writes to, and that pass by L1: nobody reads them again.
__device__ __forceinline__ uint4 load_once(const void* source) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(source));
  return v;
}

/// Starts a copy of 16 bytes that passes by L1, for data that this block reads once; writes zeros and reads nothing
/// unless `valid`.
__device__ __forceinline__ void copy_async_once(std::uint32_t destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}

/// The same through L1, 4, 8 or 16 bytes.
template <int bytes>
__device__ __forceinline__ void copy_async(std::uint32_t destination, const void* source, bool valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "the sizes cp.async knows");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(destination), "l"(source), "n"(bytes),
               "r"(valid ? bytes : 0)
               : "memory");
}
template <int bytes>
__device__ __forceinline__ void copy_async(std::uint32_t destination, const void* source) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(destination), "l"(source), "n"(bytes) : "memory");
}

/// Closes a group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

/// Waits until at most `pending` of this thread's groups are unfinished.
template <int pending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

/// Copies 16-byte-aligned global memory to shared memory; `barrier` counts the bytes as they land.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
/// The same under an L2 policy.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier,
                                          std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
/// The same to one place in each block of the cluster that `mask` names; each one's barrier counts.
__device__ __forceinline__ void bulk_load_multicast(void* shared, const void* global, std::uint32_t bytes,
                                                    std::uint64_t* barrier, std::uint32_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(static_cast<std::uint16_t>(mask))
      : "memory");
}

/// The policy for what is read once: all else that is in L2 is worth more.
__device__ __forceinline__ std::uint64_t evict_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Copies shared memory, on which every writer has called fence_async_proxy, to global memory, both 16-byte aligned;
/// part of the group of stores that bulk_commit closes.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `pending` of this thread's groups of stores have yet to read their shared memory.
template <int pending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Until all have been written.
__device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace lamina::cuda::ptx
