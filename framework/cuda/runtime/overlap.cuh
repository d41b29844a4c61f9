#pragma once

#include <cuda_runtime.h>

#include "lamina/kernel/neighbours.h"

/// Kernels that start while the one before them in the stream still runs (programmatic dependent launch, compute
/// capability 9.0): between small kernels that hides the launch and whatever needs nothing of the predecessor.
namespace lamina::cuda {

/// Waits until everything before this kernel in its stream is done and visible. To be called by every thread before
/// it reads an activation or writes anything; on older devices kernels never overlap and this does nothing.
__device__ inline void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel's blocks start as soon as there is room for them.
__device__ inline void let_successor_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// The same for kernels that may run beside their neighbours. The first of those that stand beside each other lets the
// next start only when its own wait is over: then all that came before them is done, and the next need not wait. Each
// of these waits at its end instead, so that the end of the last is still the end of all.

__device__ inline void let_successor_start(const Neighbours& neighbours) {
  if (!neighbours.after || neighbours.before) let_successor_start();
}

__device__ inline void wait_for_predecessor(const Neighbours& neighbours) {
  if (neighbours.before) return __threadfence();  // nor read what this multiprocessor had in its L1 before
  wait_for_predecessor();
  if (neighbours.after) let_successor_start();
}

/// To be called by a thread of every block that is done.
__device__ inline void end_beside(const Neighbours& neighbours) {
  if (neighbours.before) wait_for_predecessor();
}

}  // namespace lamina::cuda
