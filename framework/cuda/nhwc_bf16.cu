#include "lamina/cuda/nhwc_kernel.cuh"

namespace lamina::cuda::nhwc {

std::vector<Tile> tiles_bf16() { return make_tiles<__nv_bfloat16>(); }

}  // namespace lamina::cuda::nhwc
