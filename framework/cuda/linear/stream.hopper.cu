#include "lamina/cuda/linear/stream.cuh"

namespace lamina::cuda::linear_stream {

std::vector<Tile> tiles_fp16() { return make_tiles<__half>(); }
std::vector<Tile> tiles_bf16() { return make_tiles<__nv_bfloat16>(); }
std::vector<Tile> tiles_tf32() { return make_tiles<Tf32>(); }
std::vector<Tile> tiles_fp32() { return make_tiles<float>(); }

}  // namespace lamina::cuda::linear_stream
