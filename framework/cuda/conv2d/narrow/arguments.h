#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/code_ends.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/kernel/neighbours.h"

/// What the host and the device code of 1x1 convolutions to few filters agree on.
namespace lamina::cuda::narrow {

inline constexpr int threads = 256, warps = threads / 32;
inline constexpr int chunk_bytes = 64;      // of a pixel, of two mma.sync: 16 of each lane
inline constexpr int fragment_bytes = 512;  // of weights: a chunk of 8 filters

struct Arguments {
  const void* input = nullptr;             // [M, K]
  const void* factors = nullptr;           // [N, K], what the channels of each image are multiplied by; or nothing.
                                           // Of codes f32
  const unsigned char* weights = nullptr;  // [slices, slice_bytes], see slice_bytes
  void* output = nullptr;                  // [M, F]
  Finish finish;                           // a clamp, perhaps behind an addition; of codes only what is added
  eight_bits::CodeEnds codes;
  Multiplier product;                         // of codes and factors
  int pixels = 0, channels = 0, filters = 0;  // M, K, F
  int output_pitch = 0;                       // elements from pixel to pixel of the output and of what is added
  int chunks = 0;                             // of K
  int slices = 0;                             // of the filters: 8 n each
  int splits = 1;                             // warps that share the chunks of a tile: 1, 2, 4 or 8
  int tiles = 0;                              // of pixels, of a whole block's warps
  int images = 0, image_pixels = 0;           // N, and the pixels of each
  Divider by_slices, by_image;                // by_image: pixels of an image; of codes a warp's tiles of one
  Neighbours neighbours = {};
};

/// Of a slice's parameters: fragments [chunks, n, lane] of 16 bytes, and biases [8 n] in f32; of codes whole numbers,
/// and factors [8 n].
__host__ __device__ constexpr int bias_offset(int chunks, int n) { return chunks * n * fragment_bytes; }
__host__ __device__ constexpr int slice_bytes(int chunks, int n, bool codes) {
  return bias_offset(chunks, n) + n * (codes ? 64 : 32);
}

/// Filter of a slice that column `column` of fragment `j` belongs to: a lane then has 2 n neighbouring filters.
__host__ __device__ constexpr int filter_of(int n, int j, int column) {
  return column / 2 * 2 * n + 2 * j + column % 2;
}

/// One compiled kernel: a warp's tile is 16 m pixels by 8 n filters; two blocks fit onto a multiprocessor or one.
struct Tile {
  int m = 0, n = 0;
  bool scaled = false;
  int resident = 1;
  const void* kernel = nullptr;  // __global__ void(Arguments)
};

/// Chunks of pixels that a warp has in registers or on their way there.
__host__ __device__ constexpr int stages_of(int m) { return m == 1 ? 3 : 2; }
/// Words of a chunk's factors, for a lane: of 16 bits as many as of its pixels; of codes 16 for all of these, which are
/// of one image.
__host__ __device__ constexpr int factor_words(int m, bool scaled, bool codes) {
  return !scaled ? 0 : codes ? 16 : 8 * m;
}
/// Blocks that a multiprocessor's registers are for.
__host__ __device__ constexpr int resident_of(int m, int n, bool scaled, bool codes) {
  return m * n * 4 + stages_of(m) * (m * 8 + factor_words(m, scaled, codes)) <= 72 ? 2 : 1;
}

std::vector<Tile> tiles_f16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> tiles_u8();
std::vector<Tile> tiles_i8();

}  // namespace lamina::cuda::narrow
