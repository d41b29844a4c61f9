#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_fp16() { return make_tiles<__half>(); }

}  // namespace lamina::cuda::channels_last
