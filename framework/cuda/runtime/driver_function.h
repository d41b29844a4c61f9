#pragma once

#include <cuda_runtime.h>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda {

/// A function of the driver's own interface, as of CUDA 12.0: nothing of it is linked. Throws Error if this driver has
/// none of that name.
template <class Function>
Function driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || address == nullptr) detail::fail("CUDA: this driver has no ", name);
  return reinterpret_cast<Function>(address);
}

}  // namespace lamina::cuda
