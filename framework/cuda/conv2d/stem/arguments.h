#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of 3x3 first layers with stride 2 agree on.
namespace lamina::cuda::stem {

inline constexpr int threads = 256, warps = threads / 32;
inline constexpr int kernel_side = 3, stride = 2;
inline constexpr int max_channels = 4;  // of the input: a pixel is 8 bytes in shared memory
inline constexpr int pixel_bytes = 2 * max_channels;
inline constexpr int fragment_bytes = 256;  // of weights: a row of the window, which is a step of 16, of 8 filters

struct Arguments {
  const void* input = nullptr;             // [N, C, H, W]
  const unsigned char* weights = nullptr;  // [slices, 3, n, lane, 4] of 16 bits, then biases [slices, 8 n] in f32
  const float* bias = nullptr;
  void* output = nullptr;  // [N, OH, OW, F]
  Finish finish;           // a short one
  int channels = 0, height = 0, width = 0;
  int filters = 0, out_height = 0, out_width = 0;
  int padding_height = 0, padding_width = 0;
  int rows = 0, columns = 0;        // of a block's outputs; columns: a multiple of 16
  int in_rows = 0, in_columns = 0;  // of the input that a block keeps
  int slices = 0;                   // of the filters: 8 n each
  Divider by_slices, by_tiles_x, by_tiles_y, by_in_columns, by_fragments;  // by_fragments: 16 outputs of a row
  int tiles_x = 0, tiles_y = 0;                                            // of an image
};

/// One compiled kernel: of 8 n filters, from f32 or 16 bits to 16 bits.
struct Instance {
  int n = 0;
  DType input, output;
  const void* kernel = nullptr;  // __global__ void(Arguments)
};

std::vector<Instance> instances();

}  // namespace lamina::cuda::stem
