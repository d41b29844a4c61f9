#include "lamina/cuda/conv2d/mma/kernel.cuh"

namespace lamina::cuda::mma {

std::vector<Tile> tiles_fp32() { return make_split_tiles<SplitTf32>(); }

}  // namespace lamina::cuda::mma
