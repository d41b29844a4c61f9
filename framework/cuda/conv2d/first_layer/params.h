#pragma once

#include <cstdint>

#include "lamina/cuda/finish.h"

#ifdef __CUDACC__
#define LAMINA_HOST_DEVICE __host__ __device__
#else
#define LAMINA_HOST_DEVICE
#endif

/// What the host tells the first layer's kernel, and the K order that packing and staging must agree on.
namespace lamina::cuda::first_layer {

inline constexpr int tile_pixels = 64;     ///< M of one wgmma: pixels that one warpgroup computes at a time
inline constexpr int unit_bytes = 16;      ///< a core matrix's row: 8 16-bit values, one pixel's share of 8 K slots
inline constexpr int max_steps = 64;       ///< k16 steps: 11x11x4 stride 4 takes 36
inline constexpr int steps_per_round = 3;  ///< groups are padded to whole rounds; 11x11 stride 4 has 3 groups of 9
inline constexpr int max_groups = 8;       ///< runs of k16 steps that read the same ring row
inline constexpr int max_phases = 4;       ///< first rows of units, modulo the stride
inline constexpr int max_ring_rows = 80;   ///< 64 one-pixel output rows and a halo still fit
inline constexpr int staging_warps = 4;    ///< stage one ring row together; each leaves its own range flag
inline constexpr int exact_unroll = 32;    ///< K per round of loads on the exact path; its weights are zero-padded
inline constexpr int exact_pixels = 4;     ///< at a time there, so that a weight is read once for all of them

/// The store buffer. NCHW: 64 pixels of a filter per row, and 3 to spare for alignment; pitches of 4 (mod 32) words
/// keep fragment stores off each other's banks. NHWC needs a little less: rows of all filters of a pixel.
inline constexpr int f32_row_pitch = 68, f16_row_pitch = 72;
LAMINA_HOST_DEVICE constexpr int buffer_bytes(int filters, int element_bytes) {
  return filters * (element_bytes == 4 ? f32_row_pitch * 4 : f16_row_pitch * 2);
}

/// One 16-byte unit holds `stride` columns (so that the next pixel's unit is the next 16 bytes) of as many rows as fit.
constexpr int unit_rows(int stride) { return 8 / stride; }

/// Where K slot e of a unit comes from; row < 0 marks a slot that stays zero.
struct Tap {
  std::int16_t row, column;
};

/// At stride 4 the two rows' column pairs are interleaved, so that one aligned float4 of each row
/// makes two 8-byte pieces when the padding is 2 (mod 4): the end of one unit and the beginning of the next.
constexpr Tap unit_tap(int stride, int e) {
  const int row = stride == 4 ? (e >> 1) & 1 : e / stride;
  const int column = stride == 4 ? (e & 1) + 2 * (e >> 2) : e % stride;
  if (row >= unit_rows(stride)) return {-1, 0};
  return {static_cast<std::int16_t>(row), static_cast<std::int16_t>(column)};
}

/// Division by a number known only at run time as a multiplication and a shift; exact for 0 <= x < 2^31.
struct Divider {
  std::uint32_t divisor = 1, magic = 0, shift = 0;

  Divider() = default;
  explicit Divider(int by) : divisor(static_cast<std::uint32_t>(by)) {
    if (by == 1) return;
    while ((std::uint32_t{1} << shift) < divisor) ++shift;
    magic = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift)) + divisor - 1) / divisor);
    --shift;
  }
#ifdef __CUDACC__
  __device__ __forceinline__ int divide(int x) const {
    return divisor == 1 ? x : static_cast<int>(__umulhi(static_cast<std::uint32_t>(x), magic) >> shift);
  }
#endif
};

/// Column c of a block's B is its filter  column_filter(c): within each 16 columns, the four columns 2t + e that the
/// lanes t of a fragment hold are filters 4 apart. Their planes then start at the same address modulo 16 bytes, however
/// odd a plane's size, and so the store buffer's rows can be aligned as memory is without bank conflicts.
LAMINA_HOST_DEVICE constexpr int column_filter(int c) {
  return (c & ~15) + 4 * ((c >> 1) & 3) + 2 * ((c >> 3) & 1) + (c & 1);
}

LAMINA_HOST_DEVICE constexpr int filter_column(int f) {
  return (f & ~15) + 8 * ((f >> 1) & 1) + 2 * ((f >> 2) & 3) + (f & 1);
}

/// Pooling reads the store buffers as one ring of pixels, so that a row of them may begin in one and end in another.
inline constexpr int pool_buffers = 4;
inline constexpr int pool_ring_pixels = pool_buffers * tile_pixels;
/// 16-byte units of a row of the pooled map that each of the storing warpgroup's threads can hold.
LAMINA_HOST_DEVICE constexpr int pool_tasks(int element_bytes) { return element_bytes == 4 ? 6 : 4; }

/// k16 steps [begin, end) read ring row (output row + shift).
struct StepGroup {
  int shift, begin, end;
};

/// How x becomes a 16-bit operand: `x * input_scale`, exact as a power of two.
inline constexpr float input_scale = 128.0f;
/// The residual's own power of two: keeps it clear of f16's subnormals. Its products have an accumulator of their own.
inline constexpr float residual_scale = 2048.0f;

struct Params {
  const void* input;            // [N, C, H, W] or [N, H, W, C], f32 or the precision's 16 bits
  const void* weights;          // [splits][steps][2][columns / 8][8][8] 16-bit, see pack.h
  const float* scale;           // [splits * filters_per_block]: undoes the weights' and the input's powers of two
  const float* bias;            // [splits * filters_per_block], zeros where there is none
  const float* exact_weights;   // [C * KH * KW, padded to exact_unroll][splits * filters_per_block]
  const std::uint8_t* inexact;  // [splits * filters_per_block]: 1 where a filter does not survive packing
  void* output;  // [N, OC, OH, OW] or [N, OH, OW, OC], or pooled [N, pool_height, pool_width, pool_pitch]

  int channels, in_height, in_width;
  int out_channels, out_height, out_width;
  int kernel_height, kernel_width, stride, padding_height, padding_width;

  int splits;           // blocks that share the same pixels, each with its own filters
  int strip_width;      // output columns per strip; a strip is treated as an image of its own
  int strips;           // per image
  int pitch;            // units per ring row = strip_width + column_units - 1
  int column_units;     // units that one window covers in a row
  int tiles_per_strip;  // ceil(OH * pitch / 64)
  int units;            // what blocks share out: N * strips * tiles_per_strip tiles, or N * pool_height rows
  int share;            // units of one block; of the first `larger_shares` ranges one more
  int larger_shares;
  int ring_rows;     // rows of units in the ring
  int mirror_units;  // the ring's first units, repeated behind its end so that no tile's read wraps
  int plane_units;   // ring_rows * pitch + mirror_units
  int halo_rows;     // ring rows beyond its own that an output row needs
  int phases;        // planes = phases * channels
  int phase_row[max_phases];
  Tap tap[8];  // unit_tap of the stride
  int steps, groups;
  bool three_by_nine;  // 3 groups of 9 steps: the 11x11 stride-4 layers, whose loop is unrolled
  StepGroup group[max_groups];
  std::uint32_t step[max_steps];  // low half: first unit, high half: distance to the second unit, in units

  // The input: elements from one channel, row and column to the next.
  int in_channel, in_row, in_column;
  // As it is staged: `raw_planes` runs of `raw_rows` image rows make a ring row, a run for each channel (nchw) or one
  // for all (nhwc); bytes from one channel, row (of a strip's columns) and column to the next.
  int raw_planes, raw_rows;
  int raw_channel_bytes, raw_line_bytes, raw_column_bytes;
  int tap_bytes[8];  // from a unit's first column and row to where its K slot e comes from
  int raw_align;     // columns that begin at 16 bytes
  int odd_lines;     // 1 where image rows are odd numbers of 16-bit elements, and begin between words
  int tolerated;     // values of a window that may be smaller than the fast path likes; see exact.cuh
  // Square windows that reach at most one row into the next ones; pool_kernel 0: no pooling.
  int pool_kernel, pool_stride, pool_padding, pool_height, pool_width;
  int pool_pitch;  // elements from one pixel of the pooled map to the next: more than OC in a slice of another
  Divider by_pool_height;

  Divider by_taps, by_kernel_width;
  Divider by_pitch, by_pieces, by_tiles_per_strip, by_out_width;  // pieces: pitch + 1, see stage.cuh

  int buffers, buffer_bytes;               // store buffers; computing warpgroup g takes those congruent to it, in turn
  int exact_scratch, exact_scratch_bytes;  // where in dynamic shared memory the exact path works; of each warpgroup

  Finish::Kind function;  // what is done to a sum: a clamp, SiLU or hard swish
  float low, high;        // of the clamp
  bool narrow;            // the input is of 16 bits
  bool any_inexact;
  bool nhwc;         // the output
  bool bulk_rows;    // image rows are multiples of 16 bytes: TMA brings them
  bool wide_pieces;  // and stride 4, padding 2 (mod 4), nchw: pieces of four columns, see stage.cuh
  bool contiguous;   // one strip: a tile's pixels are consecutive in memory
  bool one_run;      // and NHWC, and no other block has filters of these pixels: so are its outputs
};

/// Of the exact path's scratch memory, before the windows.
inline constexpr int exact_header_bytes = static_cast<int>(sizeof(Params) + 15) / 16 * 16 + 528;

}  // namespace lamina::cuda::first_layer
