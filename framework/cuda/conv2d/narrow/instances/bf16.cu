#include "lamina/cuda/conv2d/narrow/kernel.cuh"

namespace lamina::cuda::narrow {

std::vector<Tile> tiles_bf16() { return tiles<__nv_bfloat16>(); }

}  // namespace lamina::cuda::narrow
