#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> instances_i8() { return code_instances<std::int8_t>(); }

}  // namespace lamina::cuda::depthwise
