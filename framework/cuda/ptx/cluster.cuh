#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/shared.cuh"

/// What the blocks of a cluster need of each other, sm_90. PTX ISA, "barrier.cluster", "mapa", "st.async".
namespace lamina::cuda::ptx {

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of all blocks of the cluster; orders their accesses to each other's shared memory.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// This shared address, in block `rank` of the cluster.
__device__ __forceinline__ std::uint32_t in_block(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// Arrives at the barrier of block `rank`. What is handed over was read and will be written by the asynchronous proxy
/// alone, so that no fence over the whole cluster is needed.
__device__ __forceinline__ void barrier_arrive_in(std::uint64_t* barrier, std::uint32_t rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(in_block(shared_address(barrier), rank))
               : "memory");
}

/// Neighbouring f32 of block `rank` of the cluster, and one for it: where this block has `own`.
__device__ __forceinline__ float4 load_from(const float* own, int rank) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(in_block(shared_address(own), static_cast<std::uint32_t>(rank)))
               : "memory");
  return v;
}
__device__ __forceinline__ void store_to(float* own, int rank, float value) {
  asm volatile(
      "st.shared::cluster.f32 [%0], %1;" ::"r"(in_block(shared_address(own), static_cast<std::uint32_t>(rank))),
      "f"(value)
      : "memory");
}

/// Stores to a block of the cluster, whose barrier counts the 16 bytes as they land. Both addresses are from in_block,
/// of one block.
__device__ __forceinline__ void store_counted(std::uint32_t address, float4 v, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
}

}  // namespace lamina::cuda::ptx
