#include "lamina/cuda/conv2d/mma/kernel.cuh"

namespace lamina::cuda::mma {

std::vector<Tile> tiles_tf32() { return make_tiles<Tf32>(); }

}  // namespace lamina::cuda::mma
