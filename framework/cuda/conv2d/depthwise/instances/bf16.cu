#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> instances_bf16() { return instances<__nv_bfloat16>(); }

}  // namespace lamina::cuda::depthwise
