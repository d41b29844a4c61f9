// The implicit GEMM of kernel.cuh in fp32.

#include "lamina/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "lamina/cuda/conv2d/implicit_gemm/warps.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_fp32() {
  KernelSet set;
  set.reduce = reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<SplitTf32>);
  set.tiles.push_back(make_tile<WarpTile<SplitTf32, 128, 64, 64, 32>, 16, 2>(152));
  set.tiles.push_back(make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 16, 3>(136));
  set.tiles.push_back(make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 8, 3>(136));
  set.tiles.push_back(make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 4, 3>(136));
  return set;
}

}  // namespace lamina::cuda::implicit_gemm
