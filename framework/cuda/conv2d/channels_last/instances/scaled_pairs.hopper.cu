#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_scaled_pairs() { return make_scaled_tiles<ScaledPairs>(); }

}  // namespace lamina::cuda::channels_last
