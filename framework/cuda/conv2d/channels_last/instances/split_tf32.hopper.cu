#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_split_tf32() {
  return {make_tile<SplitTf32, 1, 64>(), make_tile<SplitTf32, 1, 96>(), make_tile<SplitTf32, 2, 64>(),
          make_tile<SplitTf32, 2, 96>(), make_tile<SplitTf32, 2, 128>()};
}

}  // namespace lamina::cuda::channels_last
