#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of the depthwise convolution agree on.
namespace lamina::cuda::depthwise {

inline constexpr int max_threads = 256;

/// What becomes of sums of codes.
struct CodesEnd : eight_bits::Ends {
  bool saturates = false;  // to clamp them is to saturate
  eight_bits::Saturation saturation = {};
};

struct Arguments {
  ConvGeometry geometry;
  const void* input = nullptr;   // [N, H, W, C]
  const void* weight = nullptr;  // [KH, KW, C] of f32, rounded to the storage type; of codes CodeTaps'
  const void* bias = nullptr;    // [C] of f32, zeros where there is none; of codes i32, the offsets of their sums
  void* output = nullptr;        // [N, OH, OW, C]
  int input_pitch = 0, output_pitch = 0;  // elements from pixel to pixel: C, or more of slices of larger images
  Finish finish;
  CodesEnd ends;                           // of codes
  const unsigned char* padding = nullptr;  // 16 of what surrounds the image; null: zeros do
  // Of the tiled kernels:
  int slice = 0, slices = 0;            // of the channels: so many each
  int across = 0, down = 0;             // threads' tiles of outputs in a block's
  int tiles_x = 0, tiles_y = 0;         // blocks' tiles in an image
  int halo_width = 0, halo_height = 0;  // of the map whose windows a block adds up, in shared memory
  int pixel_bytes = 0;                  // from pixel to pixel there
  int copy_bytes = 16;                  // of one copy of the input: 4, 8 or 16
  int pieces = 0;                       // such copies of a pixel
  Divider by_pieces, by_slices, by_tiles_x, by_tiles_y;
  Divider by_lanes, by_across;  // packs of channels of a slice; threads' tiles side by side
};

inline constexpr int unit_bytes = 16;       // of channels: what a row of an 8 x 8 matrix of ldmatrix holds
inline constexpr int step_bytes = 32;       // of channels: what mma.sync multiplies at a time
inline constexpr int fragment_bytes = 256;  // of weights: a step of 8 filters
inline constexpr int max_fragments = 4;     // that a warp multiplies its pixels with at a time

/// Of the pair of a 1x1 convolution and the depthwise one behind it, whose input is [N, H, W, K].
struct PairArguments : Arguments {
  const unsigned char* parameters = nullptr;  // [slices, ParametersOf::bytes], in place of weight and bias
  Finish between;                             // of the first, which is short
  CodesEnd between_ends;                      // the same of codes
  std::uint32_t outside = 0;                  // four times what surrounds its map
  int terms = 0, steps = 0;                   // K; of 32 bytes
  int max_pixels = 0;                         // of the input, that a block reads
  int input_bytes = 0;                        // from pixel to pixel of the input in shared memory
  bool wide = false;                          // a warp takes 32 pixels at a time and not 16
  Divider by_units, by_halo_width;            // of the map: units of 16 bytes of a pixel
};

/// How windows of codes are added up: of the rows that a thread's outputs see, four at a time (the last may be fewer)
/// of a channel are a word for dp4a. For each row of outputs that sees some of the four, and each column of the window,
/// its weights are a word too, zeros where it does not see them: [words(), KW, C].
struct CodeTaps {
  int kernel, stride, rows;

  __host__ __device__ constexpr int height() const { return (rows - 1) * stride + kernel; }
  __host__ __device__ constexpr int fours() const { return (height() + 3) / 4; }
  __host__ __device__ constexpr int rows_of(int four) const { return four < height() / 4 ? 4 : height() % 4; }
  /// The tap of output row `row` that meets row `at` of that four: none, if it is not one of the kernel's.
  __host__ __device__ constexpr int tap(int four, int at, int row) const { return four * 4 + at - row * stride; }
  __host__ __device__ constexpr bool sees(int four, int row) const {
    return tap(four, rows_of(four) - 1, row) >= 0 && tap(four, 0, row) < kernel;
  }
  /// Of what those before it have, by fours and then rows; words(): of all.
  __host__ __device__ constexpr int word(int four, int row) const {
    int result = 0;
    for (int f = 0; f <= four; ++f) {
      for (int r = 0; r < (f < four ? rows : row); ++r) result += sees(f, r) ? 1 : 0;
    }
    return result;
  }
  __host__ __device__ constexpr int words() const { return word(fours(), 0); }
};

/// Where the parameters of a pair's slice lie, a multiple of 8 channels: weights of the first as fragments of mma.sync,
/// [steps, slice / 8, lane, 8 bytes], its bias, the second's weights, [taps, slice] words of 4 bytes, and its bias, as
/// Arguments has them. The first's bias is f32 too, and of codes the offsets of its sums, i32; behind either's offsets
/// are the factors of its sums then, f32.
struct ParametersOf {
  int bias, taps, last, bytes;
  __host__ __device__ ParametersOf(int steps, int slice, int taps_, bool codes)
      : bias(steps * (slice / 8) * fragment_bytes),
        taps(bias + slice * (codes ? 8 : 4)),
        last(taps + taps_ * slice * 4),
        bytes(last + slice * (codes ? 8 : 4)) {}
};

/// One compiled kernel: `pack` channels, `columns` x `rows` outputs of a thread. kernel 0: any geometry.
struct Instance {
  int kernel = 0, stride = 0;
  int pack = 1;
  int columns = 1, rows = 1;
  const void* function = nullptr;  // __global__ void(Arguments), of pairs void(PairArguments)
  bool codes = false;

  /// Words of 4 bytes of a channel's weights.
  int taps() const { return codes ? CodeTaps{kernel, stride, rows}.words() * kernel : kernel * kernel; }
};

/// All of one storage type, the widest packs first.
std::vector<Instance> instances_f32();
std::vector<Instance> instances_f16();
std::vector<Instance> instances_bf16();
std::vector<Instance> instances_u8();
std::vector<Instance> instances_i8();
std::vector<Instance> pairs_f16();
std::vector<Instance> pairs_bf16();
std::vector<Instance> pairs_u8();
std::vector<Instance> pairs_i8();

}  // namespace lamina::cuda::depthwise
