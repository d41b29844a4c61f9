#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_scaled_pairs() {
  return {make_tile<ScaledPairs, 1, 64>(),  make_tile<ScaledPairs, 1, 128>(), make_tile<ScaledPairs, 2, 64>(),
          make_tile<ScaledPairs, 2, 96>(),  make_tile<ScaledPairs, 2, 112>(), make_tile<ScaledPairs, 2, 128>(),
          make_tile<ScaledPairs, 2, 192>(), make_tile<ScaledPairs, 3, 64>(),  make_tile<ScaledPairs, 3, 96>(),
          make_tile<ScaledPairs, 3, 112>()};
}

}  // namespace lamina::cuda::nhwc
