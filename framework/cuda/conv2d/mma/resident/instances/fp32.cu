#include "lamina/cuda/conv2d/mma/resident/kernel.cuh"

namespace lamina::cuda::mma::resident {

std::vector<Tile> tiles_fp32() { return make_split_tiles<SplitTf32>(); }

}  // namespace lamina::cuda::mma::resident
