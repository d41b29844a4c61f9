#pragma once

#include <cuda_runtime.h>

/// Launch attributes (cudaLaunchConfig_t::attrs) that all kernels of a network share.
namespace lamina::cuda {

/// The kernel may start while the one before it in the stream still runs; see overlap.cuh. Compute capability 9.0.
inline cudaLaunchAttribute may_overlap() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// As much of a multiprocessor's memory as can be is shared memory, little is L1. It is divided anew only when the
/// multiprocessor is idle: kernels that overlap, or follow each other closely, have to agree, and convolutions need it.
inline cudaLaunchAttribute mostly_shared_memory() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attribute.val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  return attribute;
}

}  // namespace lamina::cuda
