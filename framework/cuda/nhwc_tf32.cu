#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_tf32() { return make_tiles<Tf32>(); }

}  // namespace lamina::cuda::nhwc
