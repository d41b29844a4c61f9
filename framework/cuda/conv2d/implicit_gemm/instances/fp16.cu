// The implicit GEMM of kernel.cuh in fp16.

#include "lamina/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "lamina/cuda/conv2d/implicit_gemm/warps.cuh"

namespace lamina::cuda::implicit_gemm {

KernelSet kernels_fp16() {
  KernelSet set;
  set.reduce = reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Fp16>);
  set.tiles.push_back(make_tile<WarpTile<Fp16, 128, 256, 64, 64>, 16, 1>("mma.sync", 800));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 128, 128, 64, 64>, 16, 2>("mma.sync", 780));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 64, 128, 32, 64>, 16, 3>("mma.sync", 600));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 64, 64, 32, 32>, 16, 4>("mma.sync", 498));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 64, 128, 32, 64>, 8, 3>("mma.sync", 400));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 64, 64, 32, 32>, 8, 4>("mma.sync", 344));
  set.tiles.push_back(make_tile<WarpTile<Fp16, 64, 64, 32, 32>, 4, 3>("mma.sync", 250));
  return set;
}

}  // namespace lamina::cuda::implicit_gemm
