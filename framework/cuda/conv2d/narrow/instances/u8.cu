#include "lamina/cuda/conv2d/narrow/kernel.cuh"

namespace lamina::cuda::narrow {

std::vector<Tile> tiles_u8() { return tiles<std::uint8_t>(); }

}  // namespace lamina::cuda::narrow
