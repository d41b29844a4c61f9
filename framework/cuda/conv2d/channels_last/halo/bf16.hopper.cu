#include "lamina/cuda/conv2d/channels_last/halo/kernel.cuh"

namespace lamina::cuda::channels_last {

std::vector<Tile> halo_tiles_bf16() { return halo::make_tiles<__nv_bfloat16>(); }

}  // namespace lamina::cuda::channels_last
