// The implicit GEMM of kernel.cuh in tf32.

#include "lamina/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "lamina/cuda/conv2d/implicit_gemm/warps.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_tf32() {
  KernelSet set;
  set.reduce = reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Tf32>);
  set.tiles.push_back(make_tile<WarpTile<Tf32, 128, 128, 64, 64>, 16, 2>(375));
  set.tiles.push_back(make_tile<WarpTile<Tf32, 64, 128, 32, 64>, 16, 3>(310));
  set.tiles.push_back(make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 16, 3>(238));
  set.tiles.push_back(make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 8, 3>(200));
  set.tiles.push_back(make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 4, 3>(150));
  return set;
}

}  // namespace lamina::cuda::implicit_gemm
