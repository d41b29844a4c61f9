#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch_attributes.h"

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

/// Whether the current device overlaps kernels.
bool device_overlaps();

/// Launches a kernel that calls wait_for_predecessor.
template <class... Parameters, class... Arguments>
void launch_overlapping(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                        Arguments&&... arguments) {
  cudaLaunchAttribute attributes[] = {may_overlap(), mostly_shared_memory()};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = device_overlaps() ? 2 : 0;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace lamina::cuda
