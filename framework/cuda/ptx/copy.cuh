#pragma once

#include <cuda.h>

#include <cstdint>

#include "lamina/cuda/ptx/barrier.cuh"

/// The copy engine's tensor copies, and what blocks of a cluster need of each other, as inline PTX.
/// PTX ISA 8.x, chapters "cp.async.bulk.tensor", "mapa", "barrier.cluster", "stmatrix".
namespace lamina::cuda::channels_last {

using first_layer::shared_address;

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// The first pixel of a column of windows: its window's corner, in the input.
struct Corner {
  int image = 0, row = 0, column = 0;
};

/// Copies 128 bytes of channels from `channel` on, at tap (tap_row, tap_column) of the windows of the map's number of
/// consecutive output pixels; zeros where a tap lies in the padding. Offsets of taps are in input pixels.
__device__ __forceinline__ void load_pixels(void* shared, const CUtensorMap& map, int channel, Corner corner,
                                            int tap_row, int tap_column, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(shared_address(shared)),
      "l"(&map), "r"(channel), "r"(corner.column), "r"(corner.row), "r"(corner.image), "r"(shared_address(barrier)),
      "h"(static_cast<std::uint16_t>(tap_column)), "h"(static_cast<std::uint16_t>(tap_row))
      : "memory");
}

/// Copies the same bytes to the same place in each block of the cluster that `mask` names, and counts them at each
/// one's barrier.
__device__ __forceinline__ void bulk_load_multicast(void* shared, const void* global, std::uint32_t bytes,
                                                    std::uint64_t* barrier, std::uint32_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(static_cast<std::uint16_t>(mask))
      : "memory");
}

/// Stores a box of shared memory to the output at (channel, pixel); what lies outside of it is left out.
__device__ __forceinline__ void store_box(const CUtensorMap& map, std::uint32_t shared, int channel, int pixel) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(channel), "r"(pixel), "r"(shared)
               : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `pending` of this thread's groups of stores have yet to read their shared memory.
template <int pending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

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

/// Stores to a block of the cluster, which counts the 16 bytes at its barrier as they land. Both addresses are from
/// in_block, of one block.
__device__ __forceinline__ void store_counted(std::uint32_t address, float4 v, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
}

/// first_layer::barrier_wait for what other blocks of the cluster have stored.
__device__ __forceinline__ void barrier_wait_cluster(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT_%=:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1, %2;\n"
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity), "r"(1000000)
      : "memory");
}

/// Stores four transposed 8 x 8 matrices of 16-bit elements: lane 8i + r names where column r of matrix i goes.
__device__ __forceinline__ void store_transposed(std::uint32_t address, std::uint32_t m0, std::uint32_t m1,
                                                 std::uint32_t m2, std::uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}

/// Joins the 128 threads of one warpgroup; true for all if it is for one.
__device__ __forceinline__ bool warpgroup_any(int id, bool value) {
  int any;
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nbar.red.or.pred q, %2, 128, p;\nselp.b32 %0, 1, 0, q;\n}\n"
               : "=r"(any)
               : "r"(static_cast<int>(value)), "r"(id)
               : "memory");
  return any != 0;
}

__device__ __forceinline__ void threads_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int pending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

}  // namespace lamina::cuda::channels_last
