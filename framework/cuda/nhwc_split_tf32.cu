#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_split_tf32() {
  return {make_tile<SplitTf32, 1, 64>(), make_tile<SplitTf32, 1, 96>(), make_tile<SplitTf32, 2, 64>(),
          make_tile<SplitTf32, 2, 96>(), make_tile<SplitTf32, 2, 128>()};
}

}  // namespace lamina::cuda::nhwc
