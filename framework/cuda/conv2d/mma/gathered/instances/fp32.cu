#include "lamina/cuda/conv2d/mma/gathered/kernel.cuh"

namespace lamina::cuda::mma::gathered {

KernelSet kernels_fp32() {
  return {.tiles = {make_tile<WarpTile<SplitTf32, 128, 64, 64, 32>, 16, 2>(152),
                    make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 16, 3>(136),
                    make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 8, 3>(136),
                    make_tile<WarpTile<SplitTf32, 64, 64, 32, 32>, 4, 3>(136)},
          .reduce = reduce_kernel<SplitTf32>()};
}

}  // namespace lamina::cuda::mma::gathered
