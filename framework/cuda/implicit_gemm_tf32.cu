// The implicit GEMM of implicit_gemm_kernel.cuh in tf32.

#include "lamina/cuda/implicit_gemm_kernel.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_tf32() {
  return {{make_tile<Tf32, Tiling<128, 128, 64, 64>, 2>(), make_tile<Tf32, Tiling<96, 128, 48, 64>, 2>(),
           make_tile<Tf32, Tiling<64, 64, 32, 32>, 3>()},
          reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Tf32>)};
}

}  // namespace lamina::cuda::implicit_gemm
