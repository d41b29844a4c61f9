#include "lamina/cuda/conv2d/mma/gathered/kernel.cuh"

namespace lamina::cuda::mma::gathered {

KernelSet kernels_tf32() {
  return {.tiles = {make_tile<WarpTile<Tf32, 128, 128, 64, 64>, 16, 2>(375),
                    make_tile<WarpTile<Tf32, 64, 128, 32, 64>, 16, 3>(310),
                    make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 16, 3>(238),
                    make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 8, 3>(200),
                    make_tile<WarpTile<Tf32, 64, 64, 32, 32>, 4, 3>(150)},
          .reduce = reduce_kernel<Tf32>()};
}

}  // namespace lamina::cuda::mma::gathered
