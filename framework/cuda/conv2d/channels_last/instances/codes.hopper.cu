#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_codes() {
  return {make_tile<Codes, 1, 64>(), make_tile<Codes, 1, 96>(),  make_tile<Codes, 1, 128>(), make_tile<Codes, 2, 64>(),
          make_tile<Codes, 2, 96>(), make_tile<Codes, 2, 128>(), make_tile<Codes, 2, 192>(), make_tile<Codes, 2, 256>(),
          make_tile<Codes, 3, 96>(), make_tile<Codes, 3, 192>(), make_tile<Codes, 4, 64>(),  make_tile<Codes, 4, 128>(),
          make_tile<Codes, 1, 192>()};
}

}  // namespace lamina::cuda::channels_last
