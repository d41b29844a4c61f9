#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/barrier.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/tensor_core/operand_rows.h"

/// A ring of stages in shared memory, which copies fill and a warpgroup's products empty: each stage holds 128 bytes of
/// K of both operands, in rows under the 128-byte swizzle.
namespace lamina::cuda {

/// A place in the ring, and by the parity of its barriers' phases how often it has come round.
struct Ring {
  int stages, stage = 0, parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// The same where teams may take the stages in turn, each `by` of them on.
struct TeamRing : Ring {
  __device__ __forceinline__ void advance(int by = 1) {
    stage += by;
    if (stage >= stages) stage -= stages, parity ^= 1;
  }
};

/// Descriptors of a stage's operands.
struct StageOperands {
  std::uint64_t a, b;
};

/// d = a b + (accumulate ? d : 0) over 32 bytes of K, in one instruction of at most max_columns columns or in two.
template <class T, int max_columns, class Sum, int count>
__device__ __forceinline__ void wgmma_in_turn(Sum (&d)[count], std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (2 * count <= max_columns) {
    ptx::wgmma<T>(d, a, b, accumulate);
  } else {
    constexpr int first = (count + 15) / 16 * 16;  // columns
    ptx::wgmma<T>(reinterpret_cast<Sum(&)[first / 2]>(d[0]), a, b, accumulate);
    ptx::wgmma<T>(reinterpret_cast<Sum(&)[count - first / 2]>(d[first / 2]), a,
                  b + static_cast<unsigned>(first * step_bytes / 16), accumulate);
  }
}

/// A warpgroup's products over `steps` stages, whose landing `full` counts: d = their sum. `operands(stage)` says where
/// they are; `release(stage)` is called when a stage
/// has been read, while the next one's products run. Returns the last stage, which is still to be released.
template <class T, int max_columns, class R, class Sum, int count, class Operands, class Release>
__device__ __forceinline__ int multiply_stages(R& ring, std::uint64_t* full, int steps, Sum (&d)[count],
                                               Operands&& operands, Release&& release) {
  int previous = 0;
  for (int step = 0; step < steps; ++step, ring.advance()) {
    ptx::barrier_wait(full + ring.stage, ring.parity);
    const StageOperands at = operands(ring.stage);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // 32 bytes of K each; addresses in a descriptor count 16
      wgmma_in_turn<T, max_columns>(d, at.a + static_cast<unsigned>(2 * i), at.b + static_cast<unsigned>(2 * i),
                                    step > 0 || i > 0);
    }
    ptx::wgmma_commit();
    if (step > 0) {
      ptx::wgmma_wait<1>();
      release(previous);
    }
    previous = ring.stage;
  }
  ptx::wgmma_wait<0>();
  ptx::pin(d);
  return previous;
}

}  // namespace lamina::cuda
