// The implicit GEMM of kernel.cuh in fp16.

#include "lamina/cuda/conv2d/implicit_gemm/instances/tiles_of_16_bits.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_fp16() { return tiles_of_16_bits<Fp16>(); }

}  // namespace lamina::cuda::implicit_gemm
