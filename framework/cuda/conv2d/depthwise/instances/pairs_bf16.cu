#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> pairs_bf16() { return pairs<__nv_bfloat16>(); }

}  // namespace lamina::cuda::depthwise
