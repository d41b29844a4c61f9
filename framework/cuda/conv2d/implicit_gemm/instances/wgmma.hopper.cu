// The tiles of kernel.cuh that multiply with wgmma, in every precision.

#include "lamina/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "lamina/cuda/conv2d/implicit_gemm/warpgroup.cuh"

namespace lamina::cuda::implicit_gemm {
namespace {

template <class Op>
std::vector<Tile> tiles(double large_rate, double small_rate) {
  return {make_tile<WarpgroupTile<Op, 128>, 16, 2>("wgmma", large_rate),
          make_tile<WarpgroupTile<Op, 64>, 16, 3>("wgmma", small_rate)};
}

}  // namespace

std::vector<Tile> wgmma_tiles(Precision precision) {
  switch (precision) {
    case Precision::fp32: return {make_tile<SplitWarpgroupTile, 16, 2>("wgmma", 172)};
    case Precision::tf32: return {};  // wgmma would truncate pixels that are read in place
    case Precision::fp16: return tiles<Fp16>(1081, 782);
    case Precision::bf16: break;
  }
  return tiles<Bf16>(1081, 782);
}

}  // namespace lamina::cuda::implicit_gemm
