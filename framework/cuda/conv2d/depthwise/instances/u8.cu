#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> instances_u8() { return code_instances<std::uint8_t>(); }

}  // namespace lamina::cuda::depthwise
