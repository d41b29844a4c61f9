#pragma once

#include <span>

#include "lamina/cpu/conv2d/conv2d.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/cpu/simd.h"

/// Register-blocked convolution: no columns, weights packed once, vectors of filters.
///
/// A tile is P neighbouring output pixels times V vectors of L filters, and stays in registers while it runs through
/// the reduction: each step loads V vectors of packed weights, broadcasts P input values straight from the image rows,
/// and issues P x V multiply-adds. docs/inside/cpu.md derives the tile and shows what it reaches.
namespace lamina::cpu {

/// Part of one image's output: some rows, of the filters of one block.
struct BlockedJob {
  const ConvGeometry* geometry = nullptr;
  const float* input = nullptr;    // [C / groups, rows, row_pitch]: the value at channel 0, image row input_row,
                                   // column -padding_width; what lies left and right of the image reads as 0
  std::int64_t channel_pitch = 0;  // floats from channel to channel of `input`
  std::int64_t row_pitch = 0;      // floats from row to row of `input`
  int input_row = 0;
  const float* packed = nullptr;       // [1 + K, vectors * lanes], 64-byte aligned: biases, then weights
  const float* next_packed = nullptr;  // what is likely to be wanted afterwards: fetched, so it need not be there
  float* sums = nullptr;               // [rows, OW, vectors * lanes], 64-byte aligned
  float* output = nullptr;             // of this image and the first filter: [OC, OH, OW] or [OH, OW, OC]
  bool channels_last = false;
  int filters = 0;  // of the block that exist: at most vectors * lanes
  int first_row = 0, last_row = 0;
  bool relu = false;
  const RowEpilogue* finish = nullptr;  // of channels-last output; no additions
};

/// The kernel compiled for one instruction set.
struct BlockedKernel {
  InstructionSet set;
  int lanes;                              // L: floats in a vector
  int vectors;                            // V: vectors of filters in a wide block
  int pixels;                             // P: the most pixels in a tile of a wide block
  void (*wide)(const BlockedJob& job);    // V vectors of filters
  void (*narrow)(const BlockedJob& job);  // one vector of filters
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const BlockedKernel> blocked_kernels();

/// Floats of the packed weights: [groups, blocks, 1 + K, filters of the block], padded with zeros.
std::int64_t conv2d_blocked_packed_size(const ConvGeometry& geometry, const BlockedKernel& kernel);
/// `weight` [OC, C / groups, KH, KW], `bias` [OC] or null; `packed` is 64-byte aligned.
void conv2d_blocked_pack(const ConvGeometry& geometry, const BlockedKernel& kernel, const float* weight,
                         const float* bias, float* packed);

/// `pointers.weight` is what conv2d_blocked_pack() wrote, biases included; `workspace` is 64-byte aligned and
/// conv2d_blocked_workspace() bytes.
void conv2d_blocked(const ConvGeometry& geometry, const BlockedKernel& kernel, const Conv2dPointers& pointers,
                    ThreadPool& pool, float* workspace);
/// The same, but the output is [N, OH, OW, OC], and the epilogue, which adds nothing, takes the place of a ReLU.
void conv2d_blocked_to_channels_last(const ConvGeometry& geometry, const BlockedKernel& kernel,
                                     const Conv2dPointers& pointers, const RowEpilogue& epilogue, ThreadPool& pool,
                                     float* workspace);
std::size_t conv2d_blocked_workspace(const ConvGeometry& geometry, const BlockedKernel& kernel, int threads);

}  // namespace lamina::cpu
