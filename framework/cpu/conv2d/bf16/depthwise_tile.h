#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu::bf16 {

/// Neighbouring outputs of a row, of one block of channels of a convolution with a filter for each channel. Two vectors
/// of floats hold the even and the odd channels of the block: a shift and a mask make them of one load.
struct DepthwiseTile {
  const bfloat16* const* rows = nullptr;  // [kernel_rows] column 0 of the image
  int kernel_rows = 0, kernel_columns = 0;
  int channels = 0;                // at most DepthwiseKernel::channels; no others are read or written
  std::int64_t pixel = 0;          // elements from one position of the input to the next
  std::int64_t left = 0;           // the column of the first output's first tap
  std::int64_t columns = 0;        // of the image: what lies outside is 0, and is not read
  int stride = 1, dilation = 1;    // in positions
  const float* weights = nullptr;  // [kernel_rows, kernel_columns, even channels and odd ones], aligned
  const float* bias = nullptr;     // likewise of one position
  int count = 0;                   // outputs that are stored, at most DepthwiseKernel::positions
  float low = 0, high = 0;         // the bounds of results, and what is applied to them: as RowEpilogue has them
  Pointwise function = Pointwise::identity;
  bfloat16* output = nullptr;
  std::int64_t output_pixel = 0;  // elements
  float* sums = nullptr;          // if not null, instead: [positions, channels] without any of this, aligned
};

/// Compiled for one instruction set.
struct DepthwiseKernel {
  InstructionSet set;
  int channels;   // of a block
  int positions;  // of a tile
  void (*run)(const DepthwiseTile& tile);
  void (*run_rounding)(const DepthwiseTile& tile);  // with AVX512-BF16's instruction, or null
};
std::span<const DepthwiseKernel> depthwise_kernels();

}  // namespace lamina::cpu::bf16
