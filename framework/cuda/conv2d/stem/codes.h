#pragma once

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// First layers in eight bits: windows up to 8 pixels wide over up to four channels, from planes or pixels of codes, or
/// planes of f32, to channels-last codes, and max pooling. Compute capability 8.0 and up. See codes.cu.
namespace lamina::cuda::stem::codes {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

inline constexpr int threads = 256, warps = threads / 32;
inline constexpr int max_channels = 4;      // of the input: a pixel is a word in shared memory
inline constexpr int max_numbers = 3;       // if they are f32
inline constexpr int fragment_bytes = 256;  // of weights: a step of 32 of 8 filters

/// Pixels of a row of a window as it is multiplied: a step of K is one such row of eight, or two of four.
constexpr int row_pixels(int kernel_width) { return kernel_width <= 4 ? 4 : 8; }
constexpr int step_count(int kernel_height, int kernel_width) {
  return kernel_width <= 4 ? (kernel_height + 1) / 2 : kernel_height;
}

/// Max pooling has 3x3 windows and that stride.
inline constexpr int pool_kernel = 3, pool_stride = 2;
/// Of the outputs of a row, those that a warp has at a time.
template <bool pools>
inline constexpr int fragment_columns = pools ? 7 : 16;

struct Arguments {
  const void* input = nullptr;             // [N, C, H, W] or [N, H, W, C]
  const unsigned char* weights = nullptr;  // [slices, steps, n, lane, 8]
  void* output = nullptr;                  // [N, OH, OW, F]
  eight_bits::Ends ends;
  bool saturates = false;  // to clamp codes is to saturate
  eight_bits::Saturation saturation;
  bool rounds = false;                   // the input is f32, which becomes codes
  Rounding rounding;                     // by this, which does not divide
  std::int64_t image = 0;                // elements of an image of the input
  int channel_step = 0, pixel_step = 0;  // elements from one channel and one pixel of it to the next
  int channels = 0, height = 0, width = 0;
  int filters = 0, out_height = 0, out_width = 0, out_pitch = 0;
  int padding_height = 0, padding_width = 0, stride_height = 1, stride_width = 1;
  int map_height = 0, map_width = 0, pool_padding_height = 0, pool_padding_width = 0;  // of what is pooled
  std::uint32_t padding = 0;        // of a pixel: the zero point in each byte
  std::uint32_t flip = 0;           // of a pixel: what makes u8 of i8
  int rows = 0, columns = 0;        // of a block's outputs; columns: of whole fragments
  int walk = 1, items = 0;          // rows of a fragment that a warp has one after the other; such work of a slice
  int in_rows = 0, in_columns = 0;  // of the input that a block keeps: whole fours of pixels, which begin at such
  bool fours = false;               // of a plane, they lie so that one access has them
  int all_slices = 0, slices = 0;   // of the filters, 8 n each; that blocks begin with, to go on with every so many'th
  int tiles_x = 0, tiles_y = 0;     // of an image
  Divider by_slices, by_tiles_x, by_tiles_y, by_fours, by_fragments;
};

/// The kernel for windows of so many steps and 8 n filters; null if there is none.
const void* kernel(int steps, bool wide, int n, bool pools);

}  // namespace lamina::cuda::stem::codes
