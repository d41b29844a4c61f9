#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_tf32() { return make_tiles<Tf32>(); }

}  // namespace lamina::cuda::channels_last
