#pragma once

// The tiled convolution's way from global to shared memory: which tile a block has, and how one stage of it is staged.
// 4_tiled.cu computes on what lies there.

#include <cuda_pipeline_primitives.h>

#include "lamina/cuda/conv2d/ladder/4_tiled.h"

namespace lamina::cuda {

/// What a block works on.
struct Tile {
  const float* image;   // [C / groups, H, W]: the group's channels of one image
  const float* weight;  // [C / groups, KH, KW, weight_pitch]
  float* output;        // [block_channels, OH, OW]
  const float* bias;    // [block_channels], or null
  int channels;         // of block_channels, those that exist
  int first_pixel;      // in the strip
  int first_row;        // of the output
  int first_column;     // of the strip in the output
  int top, left;        // input row and column of the window of the tile's first row and the strip's first column
  int rows;             // output rows that the tile touches
};

__device__ inline Tile locate(const ConvGeometry& g, const TiledPlan& plan, const Conv2dArguments& arguments,
                              std::int64_t work) {
  const int group_in = g.in_channels / g.groups;
  const int group_out = g.out_channels / g.groups;
  // Blocks that read the same input are neighbours, so that it is still in L2.
  const int channel_block = static_cast<int>(work % plan.channel_blocks);
  work /= plan.channel_blocks;
  const int tile = static_cast<int>(work % plan.tiles);
  work /= plan.tiles;
  const int strip = static_cast<int>(work % plan.strips);
  work /= plan.strips;
  const int group = static_cast<int>(work % g.groups);
  const std::int64_t n = work / g.groups;

  const int first_channel = channel_block * plan.channel_warps * plan.thread_channels;
  const int channel = group * group_out + first_channel;
  const int first_pixel = tile * plan.tile_pixels;
  const int first_row = first_pixel / plan.strip_width;
  const int last_row = min((first_pixel + plan.tile_pixels - 1) / plan.strip_width, g.out_height - 1);
  const std::int64_t packed = std::int64_t{group_in} * g.kernel_height * g.kernel_width * plan.weight_pitch;
  Tile t;
  t.image = arguments.input + (n * g.in_channels + group * group_in) * g.in_height * g.in_width;
  t.weight = arguments.weight + (std::int64_t{group} * plan.channel_blocks + channel_block) * packed;
  t.output = arguments.output + (n * g.out_channels + channel) * g.out_height * g.out_width;
  t.bias = arguments.bias == nullptr ? nullptr : arguments.bias + channel;
  t.channels = group_out - first_channel;
  t.first_pixel = first_pixel;
  t.first_row = first_row;
  t.first_column = strip * plan.strip_width;
  t.top = first_row * g.stride_height - g.padding_height;
  t.left = t.first_column * g.stride_width - g.padding_width;
  t.rows = last_row - first_row + 1;
  return t;
}

/// One stage's share of the reduction.
struct Stage {
  int first_channel, channels;
  int first_kernel_row, kernel_rows;
};

__device__ inline Stage stage_at(const ConvGeometry& g, const TiledPlan& plan, int stage, int kernel_stages) {
  Stage s;
  s.first_channel = stage / kernel_stages * plan.stage_channels;
  s.channels = min(plan.stage_channels, g.in_channels / g.groups - s.first_channel);
  s.first_kernel_row = stage % kernel_stages * plan.stage_kernel_rows;
  s.kernel_rows = min(plan.stage_kernel_rows, g.kernel_height - s.first_kernel_row);
  return s;
}

/// Starts the copies of one stage: a warp takes an input row at a time, its lanes neighbouring columns.
__device__ inline void load_stage(const ConvGeometry& g, const TiledPlan& plan, const Tile& tile, const Stage& stage,
                                  float* inputs,   // [channels, stage_rows, row_pitch]
                                  float* weights)  // [channels, kernel_rows, KW, weight_pitch]
{
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int stride = g.stride_width;
  const int phase_step = 32 % stride;
  const int target_step = phase_step * plan.phase_pitch + 32 / stride;
  const int top = tile.top + stage.first_kernel_row * g.dilation_height;
  const int rows = (tile.rows - 1) * g.stride_height + (stage.kernel_rows - 1) * g.dilation_height + 1;

  for (int i = warp; i < stage.channels * rows; i += warps) {
    const int channel = i / rows;
    const int row = i - channel * rows;
    const int ih = top + row;
    const bool row_inside = ih >= 0 && ih < g.in_height;
    const float* source = tile.image;
    if (row_inside) source += (std::int64_t{stage.first_channel + channel} * g.in_height + ih) * g.in_width;
    float* target =
        inputs + channel * plan.channel_pitch + row * plan.row_pitch + lane % stride * plan.phase_pitch + lane / stride;
    int phase = lane % stride;
#pragma unroll 4
    for (int iw = tile.left + lane; iw < tile.left + plan.stage_columns; iw += 32) {
      const bool inside = row_inside && static_cast<unsigned>(iw) < static_cast<unsigned>(g.in_width);
      // With all four bytes zero-filled the source is not read.
      __pipeline_memcpy_async(target, source + iw, sizeof(float), inside ? 0 : sizeof(float));
      phase += phase_step;
      target += target_step;
      if (phase >= stride) {
        phase -= stride;
        target += 1 - stride * plan.phase_pitch;
      }
    }
  }

  const int first_tap = (stage.first_channel * g.kernel_height + stage.first_kernel_row) * g.kernel_width;
  const int words = stage.channels * stage.kernel_rows * g.kernel_width * plan.weight_pitch;
  const float* source = tile.weight + std::int64_t{first_tap} * plan.weight_pitch;
  for (int i = 4 * static_cast<int>(threadIdx.x); i < words; i += 4 * static_cast<int>(blockDim.x)) {
    __pipeline_memcpy_async(weights + i, source + i, sizeof(float4));
  }
}

}  // namespace lamina::cuda
