#include "lamina/cuda/conv2d/pair/kernel.cuh"

namespace lamina::cuda::pair {

std::vector<Instance> instances_f16() { return instances<__half>(); }

}  // namespace lamina::cuda::pair
