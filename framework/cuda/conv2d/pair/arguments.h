#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"

/// What the host and the device code of a 1x1 convolution with a depthwise one behind it agree on.
namespace lamina::cuda::pair {

inline constexpr int threads = 256;
inline constexpr int unit_bytes = 16;       // of channels: what a row of an 8 x 8 matrix of ldmatrix holds
inline constexpr int fragment_bytes = 256;  // of weights: 16 channels of 8 filters
inline constexpr int max_fragments = 4;     // that a warp multiplies its pixels with at a time

struct Arguments {
  const void* input = nullptr;                // [N, H, W, K]
  const unsigned char* parameters = nullptr;  // [slices, slice_bytes], see ParametersOf
  void* output = nullptr;                     // [N, OH, OW, C]
  Finish between, finish;                     // of the first, which is short, and of the second
  int height = 0, width = 0;                  // of the input, and of what lies between
  int channels = 0, filters = 0;              // K, C
  int out_height = 0, out_width = 0;
  int padding_height = 0, padding_width = 0;

  int slice = 0, slices = 0;            // of the filters: so many each, a multiple of 8
  int steps = 0;                        // of 16 channels: K
  int across = 0, down = 0;             // threads' tiles of outputs in a block's
  int tiles_x = 0, tiles_y = 0;         // blocks' tiles in an image
  int halo_width = 0, halo_height = 0;  // of what lies between, that a block computes
  int most_pixels = 0;                  // of the input, that a block reads
  int pixel_bytes = 0;                  // from pixel to pixel of the input in shared memory
  int between_bytes = 0;                // the same of what lies between
  int copy_bytes = 16;                  // of one copy of the input: 4, 8 or 16
  bool wide = false;                    // a warp takes 32 pixels at a time and not 16
  Divider by_pieces;                    // copies of a pixel
  Divider by_slices, by_tiles_x, by_tiles_y;
  Divider by_lanes, by_across;      // packs of channels of a slice; threads' tiles side by side
  Divider by_units, by_halo_width;  // of what lies between: units of 16 bytes of a pixel
};

/// Where the parameters of a slice lie: weights of the first as fragments of mma.sync, [steps, slice / 8, lane, 4] of
/// 16 bits, and in f32 its bias, the second's weights [KH, KW, slice] and its bias.
struct ParametersOf {
  int bias, taps, last, bytes;
  __host__ __device__ ParametersOf(int steps, int slice, int kernel)
      : bias(steps * (slice / 8) * fragment_bytes),
        taps(bias + slice * 4),
        last(taps + kernel * kernel * slice * 4),
        bytes(last + slice * 4) {}
};

/// One compiled kernel: `pack` channels of `columns` x `rows` outputs of a thread.
struct Instance {
  int kernel = 0, stride = 0;
  int pack = 1;
  int columns = 1, rows = 1;
  const void* function = nullptr;  // __global__ void(Arguments), `threads` threads a block
};

std::vector<Instance> instances_f16();
std::vector<Instance> instances_bf16();

}  // namespace lamina::cuda::pair
