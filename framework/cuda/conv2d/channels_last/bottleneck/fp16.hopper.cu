#include "lamina/cuda/conv2d/channels_last/bottleneck/kernel.cuh"

namespace lamina::cuda::channels_last::bottleneck {

std::vector<Tile> tiles_fp16() {
  return {make_tile<64, 1>(), make_tile<96, 1>(), make_tile<128, 1>(), make_tile<48, 2>(),
          make_tile<64, 2>(), make_tile<96, 2>(), make_tile<128, 2>(), make_tile<48, 4>(),
          make_tile<64, 4>(), make_tile<96, 4>(), make_tile<128, 4>()};
}

}  // namespace lamina::cuda::channels_last::bottleneck
