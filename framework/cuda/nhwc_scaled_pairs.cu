#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_scaled_pairs() { return make_scaled_tiles<ScaledPairs>(); }

}  // namespace lamina::cuda::nhwc
