#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// Neighbouring output channels of whole groups: the lanes of one or two vectors.
struct LanesBlock {
  std::int64_t input = 0, output = 0;  // its first channels
};

/// Neighbouring outputs of a row, of some blocks of channels.
struct LanesTile {
  /// The longest chain of multiply-adds: docs/inside/precision.md.
  static constexpr int chunk_terms = 128;

  const void* const* rows = nullptr;  // [kernel_rows] column 0 of the image, channel 0
  int kernel_rows = 0, kernel_columns = 0;
  const LanesBlock* blocks = nullptr;
  int count = 0;                   // of them
  int channels = 0;                // of a block: LanesKernel::channels, or all there are
  int group_channels = 1;          // that each output channel reads: more than one by `places`
  int chain = chunk_terms;         // taps whose products are one chain
  std::int64_t pixel = 0;          // elements from one position of the input to the next
  std::int64_t left = 0;           // the column of the first output's first tap
  std::int64_t columns = 0;        // of the image: what lies outside is read from `zeros`
  const void* zeros = nullptr;     // of all channels
  int stride = 1, dilation = 1;    // in positions
  const float* weights = nullptr;  // [blocks][kernel_rows, kernel_columns, group_channels][channels], aligned
  std::int64_t block_weights = 0;  // floats from a block's to the next one's
  const float* bias = nullptr;     // [blocks][channels]
  const std::int32_t* places =
      nullptr;              // [blocks][group_channels][channels]: where in a block's vector of input they are
  int positions = 0;        // outputs that are stored, at most LanesKernel::positions
  float low = 0, high = 0;  // the bounds of results, and what is applied to them: as RowEpilogue has them
  Pointwise function = Pointwise::identity;
  const void* addend = nullptr;   // as `output`, added to sums; or null
  void* output = nullptr;         // of channel 0
  std::int64_t output_pixel = 0;  // elements
  float* sums = nullptr;          // if not null, instead, of one block: [positions, channels] without any of this
  /// Of codes, instead: the sums [positions, whole_row], at the channels of the blocks less the first's.
  std::int32_t* whole = nullptr;
  std::int64_t whole_row = 0;
  /// Of codes and a kernel that `finishes`: codes again. The arrays are [blocks][channels], by fours_place().
  const detail::SumsEnd* end = nullptr;
  const std::int32_t* offset = nullptr;
  const float* factor = nullptr;
};

/// Compiled for one instruction set. Blocks are of `channels`, whose order in a vector is lane_place()'s.
struct LanesKernel {
  InstructionSet set;
  int channels;   // of a block
  int positions;  // of a tile
  void (*run)(const LanesTile& tile);
  void (*run_rounding)(const LanesTile& tile) = nullptr;  // with AVX512-BF16's instruction, or null
  void (*run_grouped)(const LanesTile& tile) = nullptr;   // by `places`, or null
  bool finishes = false;                                  // of codes, to codes
};

/// Of inputs of f32, bf16, or u8 and i8, whose kernels give `whole` alone.
std::span<const LanesKernel> lanes_kernels(DType input);

/// Of u8 or i8, for AVX512-VNNI: depthwise, dilation 1, 3x3 and 5x5 of stride 1 and 2, 7x7 of stride 1, to codes by
/// factors of a half at most. Weights are i8, [blocks][fours of rows][columns][fours_place()][4 rows]. Null where
/// nobody could.
const LanesKernel* dot_lanes_kernel(DType input);

/// Where a block's channel stands in a dot_lanes_kernel's weights.
constexpr int fours_place(int channel) { return channel / 4 % 4 * 16 + channel / 16 * 4 + channel % 4; }

/// Where a block's channel stands in its weights and biases: a shift and a mask make vectors of floats of the even and
/// the odd channels of one load of bf16.
constexpr int lane_place(DType input, int channel, int channels) {
  return input == DType::bf16 ? channel % 2 * (channels / 2) + channel / 2 : channel;
}

}  // namespace lamina::cpu
