#include "lamina/cuda/conv2d/narrow/kernel.cuh"

namespace lamina::cuda::narrow {

std::vector<Tile> tiles_i8() { return tiles<std::int8_t>(); }

}  // namespace lamina::cuda::narrow
