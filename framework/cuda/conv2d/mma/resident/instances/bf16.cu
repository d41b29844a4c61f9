#include "lamina/cuda/conv2d/mma/resident/kernel.cuh"

namespace lamina::cuda::mma::resident {

std::vector<Tile> tiles_bf16() { return with_windows<Bf16>(make_tiles<Bf16>()); }

}  // namespace lamina::cuda::mma::resident
