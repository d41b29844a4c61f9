#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_fp16() { return make_tiles<__half>(); }

}  // namespace lamina::cuda::nhwc
