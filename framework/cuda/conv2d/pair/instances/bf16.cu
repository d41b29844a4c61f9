#include "lamina/cuda/conv2d/pair/kernel.cuh"

namespace lamina::cuda::pair {

std::vector<Instance> instances_bf16() { return instances<__nv_bfloat16>(); }

}  // namespace lamina::cuda::pair
