#include "lamina/cuda/conv2d/channels_last/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> tiles_scaled_f16() { return make_scaled_tiles<ScaledF16>(); }

}  // namespace lamina::cuda::channels_last
