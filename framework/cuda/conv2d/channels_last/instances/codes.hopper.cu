#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_codes() { return make_code_tiles(); }

}  // namespace lamina::cuda::channels_last
