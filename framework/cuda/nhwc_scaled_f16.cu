#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_scaled_f16() {
  return {make_tile<ScaledF16, 1, 64>(),  make_tile<ScaledF16, 1, 128>(), make_tile<ScaledF16, 2, 64>(),
          make_tile<ScaledF16, 2, 96>(),  make_tile<ScaledF16, 2, 112>(), make_tile<ScaledF16, 2, 128>(),
          make_tile<ScaledF16, 2, 192>(), make_tile<ScaledF16, 3, 64>(),  make_tile<ScaledF16, 3, 96>(),
          make_tile<ScaledF16, 3, 112>()};
}

}  // namespace lamina::cuda::nhwc
