#pragma once

#include "lamina/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "lamina/cuda/conv2d/implicit_gemm/warps.cuh"

namespace lamina::cuda::implicit_gemm {

/// The tiles of fp16 and bf16. In units of 16 bytes stages are half a step, so that two blocks of 128 x 128 fit the
/// 164 KB of 8.0, and one of 256 x 128 the 99 KB of 8.6 and 8.9.
template <class Op>
KernelSet tiles_of_16_bits() {
  return {.tiles = {make_tile<WarpTile<Op, 256, 128, 64, 64, 4, 64>, 16, 1>(1100),
                    make_tile<WarpTile<Op, 128, 128, 64, 64, 4, 64>, 16, 2>(900),
                    make_tile<WarpTile<Op, 128, 96, 64, 48, 4, 64>, 16, 2>(850),
                    make_tile<WarpTile<Op, 128, 64, 64, 32, 4, 64>, 16, 3>(760),
                    make_tile<WarpTile<Op, 64, 256, 64, 64, 3, 64>, 16, 2>(800),
                    make_tile<WarpTile<Op, 64, 128, 32, 64, 4, 64>, 16, 3>(620),
                    make_tile<WarpTile<Op, 64, 64, 32, 32>, 16, 4>(490),
                    make_tile<WarpTile<Op, 64, 128, 32, 64>, 8, 3>(400),
                    make_tile<WarpTile<Op, 64, 64, 32, 32>, 8, 4>(344),
                    make_tile<WarpTile<Op, 64, 64, 32, 32>, 4, 3>(250)},
          .reduce = reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Op>)};
}

}  // namespace lamina::cuda::implicit_gemm
