// The implicit GEMM of kernel.cuh in bf16.

#include "lamina/cuda/conv2d/implicit_gemm/instances/tiles_of_16_bits.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_bf16() { return tiles_of_16_bits<Bf16>(); }

}  // namespace lamina::cuda::implicit_gemm
