#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> pairs_i8() { return code_pairs<std::int8_t>(); }

}  // namespace lamina::cuda::depthwise
