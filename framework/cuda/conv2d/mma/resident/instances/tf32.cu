#include "lamina/cuda/conv2d/mma/resident/kernel.cuh"

namespace lamina::cuda::mma::resident {

std::vector<Tile> tiles_tf32() { return make_tiles<Tf32>(); }

}  // namespace lamina::cuda::mma::resident
