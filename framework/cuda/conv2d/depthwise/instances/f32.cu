#include "lamina/cuda/conv2d/depthwise/kernel.cuh"

namespace lamina::cuda::depthwise {

std::vector<Instance> instances_f32() { return instances<float>(); }

}  // namespace lamina::cuda::depthwise
