#include "lamina/cuda/conv2d/mma/gathered/instances/tiles_of_16_bits.cuh"

namespace lamina::cuda::mma::gathered {

KernelSet kernels_fp16() { return tiles_of_16_bits<Fp16>(); }

}  // namespace lamina::cuda::mma::gathered
