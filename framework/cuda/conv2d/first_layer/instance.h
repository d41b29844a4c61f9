#pragma once

#include <cuda_runtime.h>

#include "lamina/cuda/conv2d/first_layer/params.h"
#include "lamina/kernel/precision.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda::first_layer {

/// One compiled kernel.
struct Instance {
  const void* function = nullptr;
  int block_threads = 0;
  int computing_groups = 0;
  int raw_slots = 0;
  int static_shared_bytes = 0;
};

/// The kernel for a precision, output type and filters per block; each precision's are compiled by themselves.
Instance instance_fp16(DType output, int filters);
Instance instance_bf16(DType output, int filters);
Instance instance_tf32(DType output, int filters);
Instance instance_fp32(DType output, int filters);

inline Instance instance(Precision precision, DType output, int filters) {
  switch (precision) {
    case Precision::fp16: return instance_fp16(output, filters);
    case Precision::bf16: return instance_bf16(output, filters);
    case Precision::tf32: return instance_tf32(output, filters);
    case Precision::fp32: return instance_fp32(output, filters);
  }
  return {};
}

}  // namespace lamina::cuda::first_layer
