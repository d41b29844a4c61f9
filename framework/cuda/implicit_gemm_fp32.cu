// The implicit GEMM of implicit_gemm_kernel.cuh in fp32.

#include "lamina/cuda/implicit_gemm_kernel.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_fp32() {
  return {{make_tile<SplitTf32, Tiling<128, 64, 64, 32>, 2>(), make_tile<SplitTf32, Tiling<96, 64, 48, 32>, 2>(),
           make_tile<SplitTf32, Tiling<64, 64, 32, 32>, 3>()},
          reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<SplitTf32>)};
}

}  // namespace lamina::cuda::implicit_gemm
