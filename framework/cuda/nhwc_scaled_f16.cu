#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_scaled_f16() { return make_scaled_tiles<ScaledF16>(); }

}  // namespace lamina::cuda::nhwc
