#pragma once

#include <cuda_runtime.h>

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

}  // namespace lamina::cuda
