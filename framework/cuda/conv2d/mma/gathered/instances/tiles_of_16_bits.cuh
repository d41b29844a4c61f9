#pragma once

#include "lamina/cuda/conv2d/mma/gathered/kernel.cuh"

namespace lamina::cuda::mma::gathered {

/// The tiles of fp16 and bf16.
template <class Op>
KernelSet tiles_of_16_bits() {
  return {
      .tiles = {make_tile<WarpTile<Op, 256, 128, 64, 64>, 16, 1>(1220),
                make_tile<WarpTile<Op, 128, 128, 64, 64>, 16, 2>(800),
                make_tile<WarpTile<Op, 128, 64, 64, 32>, 16, 3>(790),
                make_tile<WarpTile<Op, 64, 128, 32, 64>, 16, 3>(620),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 16, 4>(560),
                make_tile<WarpTile<Op, 64, 128, 32, 64>, 8, 3>(430), make_tile<WarpTile<Op, 64, 64, 32, 32>, 8, 4>(390),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 4, 3>(250)},
      .reduce = reduce_kernel<Op>()};
}

}  // namespace lamina::cuda::mma::gathered
