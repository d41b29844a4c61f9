#pragma once

#include <cuda_runtime.h>

/// wgmma exists for sm_90a alone. A build for other architectures has its kernels too, without a body: it declares
/// shared memory, which those with a body do not, and the host sees that.
namespace lamina::cuda {

/// Whether this build has code of `kernel`, which calls declare_no_code where it has none, for the current device.
bool has_code(const void* kernel);

#ifdef __CUDACC__
__device__ inline void declare_no_code() {
  __shared__ volatile int not_compiled;
  not_compiled = 1;
  __trap();
}
#endif

}  // namespace lamina::cuda
