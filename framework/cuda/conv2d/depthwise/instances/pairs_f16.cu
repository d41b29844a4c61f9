#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> pairs_f16() { return pairs<__half>(); }

}  // namespace lamina::cuda::depthwise
