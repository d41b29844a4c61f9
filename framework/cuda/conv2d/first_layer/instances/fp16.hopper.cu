#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {

Instance fp16_instance(DType output, int filters) {
  return output == DType::f32 ? make_instance<Precision::fp16, float>(filters)
                              : make_instance<Precision::fp16, __half>(filters);
}

}  // namespace lamina::cuda::first_layer
