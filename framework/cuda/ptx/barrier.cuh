#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/shared.cuh"

/// Barriers within a block: mbarriers in shared memory, which count threads and bytes (sm_90), and the numbered ones of
/// the hardware. PTX ISA, "mbarrier", "bar".
namespace lamina::cuda::ptx {

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

/// Arrives when this thread's cp.async so far have landed.
__device__ __forceinline__ void barrier_arrive_when_copied(std::uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of parity `parity` has completed. The last operand: nanoseconds that the hardware may suspend
// the thread before it asks again.
#define LAMINA_BARRIER_WAIT(semantics)                                                                 \
  asm volatile(                                                                                        \
      "{\n.reg .pred done;\nWAIT_%=:\n"                                                                \
      "mbarrier.try_wait.parity" semantics                                                             \
      ".shared::cta.b64 done, [%0], %1, %2;\n@!done bra WAIT_%=;\n}\n" ::"r"(shared_address(barrier)), \
      "r"(parity), "r"(1000000)                                                                        \
      : "memory")
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, int parity) { LAMINA_BARRIER_WAIT(""); }
/// The same for what other blocks of the cluster have stored.
__device__ __forceinline__ void barrier_wait_cluster(std::uint64_t* barrier, int parity) {
  LAMINA_BARRIER_WAIT(".acquire.cluster");
}
#undef LAMINA_BARRIER_WAIT

/// Joins `threads` threads at one of the numbered barriers 1 to 15; 0 belongs to __syncthreads.
template <int threads>
__device__ __forceinline__ void sync_threads(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}
__device__ __forceinline__ void sync_warpgroup(int id) { sync_threads<128>(id); }

/// Joins the 128 threads of one warpgroup; true for all if it is for one.
__device__ __forceinline__ bool any_of_warpgroup(int id, bool value) {
  int any;
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nbar.red.or.pred q, %2, 128, p;\nselp.b32 %0, 1, 0, q;\n}\n"
               : "=r"(any)
               : "r"(static_cast<int>(value)), "r"(id)
               : "memory");
  return any != 0;
}

}  // namespace lamina::cuda::ptx
