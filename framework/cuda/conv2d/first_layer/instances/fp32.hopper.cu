#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {

Instance fp32_instance(int filters) { return make_instance<Precision::fp32, float>(filters); }

}  // namespace lamina::cuda::first_layer
