#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_bf16() { return make_tiles<__nv_bfloat16>(); }

}  // namespace lamina::cuda::channels_last
