// The implicit GEMM of implicit_gemm_kernel.cuh in fp16.

#include "lamina/cuda/implicit_gemm_kernel.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_fp16() {
  return {{make_tile<Fp16, Tiling<128, 128, 64, 64>, 2>(), make_tile<Fp16, Tiling<96, 128, 48, 64>, 2>(),
           make_tile<Fp16, Tiling<64, 64, 32, 32>, 3>()},
          reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Fp16>)};
}

}  // namespace lamina::cuda::implicit_gemm
