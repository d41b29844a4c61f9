#include "lamina/cuda/conv2d/mma/resident/kernel.cuh"

namespace lamina::cuda::mma::resident {

std::vector<Tile> tiles_fp16() { return with_windows<Fp16>(make_tiles<Fp16>()); }

}  // namespace lamina::cuda::mma::resident
