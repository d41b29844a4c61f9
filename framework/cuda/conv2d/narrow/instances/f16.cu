#include "lamina/cuda/conv2d/narrow/kernel.cuh"

namespace lamina::cuda::narrow {

std::vector<Tile> tiles_f16() { return tiles<__half>(); }

}  // namespace lamina::cuda::narrow
