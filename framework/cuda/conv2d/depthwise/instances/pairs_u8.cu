#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> pairs_u8() { return code_pairs<std::uint8_t>(); }

}  // namespace lamina::cuda::depthwise
