#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of the depthwise convolution agree on.
namespace lamina::cuda::depthwise {

inline constexpr int max_threads = 256;

struct Arguments {
  ConvGeometry geometry;
  const void* input = nullptr;    // [N, H, W, C]
  const float* weight = nullptr;  // [KH, KW, C], rounded to the storage type
  const float* bias = nullptr;    // [C], zeros where there is none
  void* output = nullptr;         // [N, OH, OW, C]
  Finish finish;
  // Of the tiled kernels:
  int lanes = 0;                        // packs of channels of a block
  int threads_x = 0, threads_y = 0;     // of a block, besides
  int tiles_x = 0, tiles_y = 0;         // of an image
  int chunks = 0;                       // of channels: lanes packs each
  int tile_width = 0, tile_height = 0;  // of the input, in shared memory
  int pixel_bytes = 0;                  // from pixel to pixel there
  int copy_bytes = 16;                  // of one cp.async: 4, 8 or 16
  int pieces = 0;                       // such copies of a pixel
  Divider by_pieces;
};

/// One compiled kernel: `pack` channels, `columns` x `rows` outputs of a thread. kernel 0: any geometry.
struct Instance {
  int kernel = 0, stride = 0;
  int pack = 1;
  int columns = 1, rows = 1;
  const void* function = nullptr;  // __global__ void(Arguments)
};

/// All of one storage type, the widest packs first.
std::vector<Instance> instances_f32();
std::vector<Instance> instances_f16();
std::vector<Instance> instances_bf16();

}  // namespace lamina::cuda::depthwise
