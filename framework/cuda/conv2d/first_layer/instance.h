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

/// The kernel for a precision, output type and filters per block; defined beside each precision's instantiations.
Instance fp16_instance(DType output, int filters);
Instance bf16_instance(DType output, int filters);
Instance tf32_instance(int filters);
Instance fp32_instance(int filters);

inline Instance instance(Precision precision, DType output, int filters) {
  switch (precision) {
    case Precision::fp16: return fp16_instance(output, filters);
    case Precision::bf16: return bf16_instance(output, filters);
    case Precision::tf32: return tf32_instance(filters);
    case Precision::fp32: return fp32_instance(filters);
  }
  return {};
}

}  // namespace lamina::cuda::first_layer
