#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lamina/cuda/conv2d/ladder/kernels.h"

namespace lamina::cuda {

/// How the tiled convolution cuts up one geometry. Chosen on the host, passed to the kernel by value.
///
/// The output plane falls into vertical strips, a strip into tiles of consecutive pixels (row by row within the strip),
/// so that a strip as wide as the plane wastes nothing at row ends. The input under a tile is staged in shared memory
/// in stages: some input channels with all their kernel rows, or one channel with some of them.
struct TiledPlan {
  int variant = 0;                             // of tiled_variants
  int thread_pixels = 0, thread_channels = 0;  // outputs of one thread: pixels x channels
  int pixel_warps = 0, channel_warps = 0;      // warps of a block
  int strip_width = 0, strips = 0;             // output columns of a strip
  int tile_pixels = 0, tiles = 0;              // pixels of a tile, tiles of a strip
  int channel_blocks = 0;                      // blocks that share out a group's output channels
  int stage_channels = 0, stage_kernel_rows = 0;
  int stage_rows = 0, stage_columns = 0;  // input pixels staged per channel, at most
  int phase_pitch = 0;                    // words between columns 0, s, 2s, .. and columns 1, s + 1, ..
  int row_pitch = 0;                      // words from one staged row to the next
  int weight_pitch = 0;                   // output channels of a block, a multiple of 4
  int buffers = 0;                        // 2: the next stage is on its way while this one is used
  std::int64_t blocks = 0;

  int channel_pitch = 0;                  // words from one staged input channel to the next
  int input_words = 0, weight_words = 0;  // of one buffer

  constexpr std::size_t shared_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(buffers) *
           (static_cast<std::size_t>(input_words) + static_cast<std::size_t>(weight_words));
  }
  constexpr int warps() const { return pixel_warps * channel_warps; }
  constexpr int block_channels() const { return channel_warps * thread_channels; }
};

/// The kernel's instances: outputs of one thread, and the warps for which a multiprocessor's 65,536 registers suffice.
struct TiledVariant {
  int thread_pixels, thread_channels, warps;
};
inline constexpr std::array<TiledVariant, 5> tiled_variants = {
    {{8, 12, 12}, {8, 8, 12}, {4, 8, 20}, {4, 4, 24}, {4, 1, 32}}};

/// What the device offers.
struct TiledLimits {
  int multiprocessors = 0;
  std::size_t shared_per_block = 0;  // with the opt-in
  std::size_t shared_per_multiprocessor = 0;
};

/// Where each tap of a stage's kernel rows lies in a staged channel, in words from the first. Kernel parameters are
/// constant memory: with a uniform index the addition costs no instruction per lane.
struct TiledTaps {
  static constexpr int most = 128;
  int offset[most] = {};
};

TiledTaps tiled_taps(const ConvGeometry& geometry, const TiledPlan& plan);

/// The plan that an estimate of its time calls fastest. Nothing if one kernel row has more than TiledTaps::most taps
/// or, under a single pixel, exceeds shared memory, or if an output plane has more than 2^30 pixels.
std::optional<TiledPlan> plan_conv2d_tiled(const ConvGeometry& geometry, const TiledLimits& limits);

/// weight [OC, C / groups, KH, KW] -> [groups, channel_blocks, C / groups, KH, KW, weight_pitch], the rest zero.
std::vector<float> pack_conv2d_tiled(const ConvGeometry& geometry, const TiledPlan& plan, const float* weight);

/// The kernel that runs the plan, for reserve_shared_memory.
const void* conv2d_tiled_function(const TiledPlan& plan);

/// weight as pack_conv2d_tiled makes it.
void conv2d_tiled(const ConvGeometry& geometry, const TiledPlan& plan, const TiledTaps& taps,
                  const Conv2dArguments& arguments, Stream stream);

}  // namespace lamina::cuda
