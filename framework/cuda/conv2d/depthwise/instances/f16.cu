#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> instances_f16() { return instances<__half>(); }

}  // namespace lamina::cuda::depthwise
