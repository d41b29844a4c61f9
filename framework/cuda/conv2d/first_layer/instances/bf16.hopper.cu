#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {

Instance bf16_instance(DType output, int filters) {
  return output == DType::f32 ? make_instance<Precision::bf16, float>(filters)
                              : make_instance<Precision::bf16, __nv_bfloat16>(filters);
}

}  // namespace lamina::cuda::first_layer
