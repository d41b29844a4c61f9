#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/channels_last.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/conv_geometry.h"

/// Convolutions of few channels a group, depthwise above all, on channels-last activations: a vector's lanes are
/// neighbouring output channels of as many groups as it holds. Each lane multiplies a channel of its own group, which
/// is the one at the same place (depthwise) or is brought there by a permutation of the vector.
namespace lamina::cpu {

/// One vector of output channels.
struct LaneBlock {
  int input = 0, output = 0;  // its first channels
};

/// P neighbouring pixels of one output row, all channels of some blocks.
struct LanesTile {
  const float* input = nullptr;   // at the first pixel's first tap inside the image, channel 0
  std::int64_t pixel = 0;         // floats from pixel to pixel
  std::int64_t row = 0, tap = 0;  // floats from tap to tap of the kernel
  int rows = 0, taps = 0;         // inside the image
  int channels = 1;               // C / groups
  int flush = 1;                  // taps whose products form one chain of sums
  const LaneBlock* blocks = nullptr;
  int count = 0;                   // of them
  const float* weights = nullptr;  // [blocks, block_pitch], at the first tap: [KH, KW, channels, lanes]
  std::int64_t block_pitch = 0, row_pitch = 0;
  const std::int32_t* places =
      nullptr;                  // [blocks, channels, lanes]: where in a vector of input each lane finds its channel
  const float* bias = nullptr;  // [OC]
  float* output = nullptr;      // [P, pitch], at channel 0
  std::int64_t pitch = 0;
  const float* residual = nullptr;  // as the output, or null
  const RowEpilogue* finish = nullptr;
  // Of kernels 3, 5 or 7 wide: [rows, columns of P pixels] where each pixel is, one of zeros outside of the image;
  // null: they lie side by side from `input` on.
  const float* const* pixels = nullptr;
};

/// Tiles of one length of vectors.
struct LanesFunctions {
  int lanes;
  void (*const* depthwise)(const LanesTile& tile);  // by number of pixels less one
  void (*const* grouped)(const LanesTile& tile);    // with permutations
};

/// Depthwise tiles that load a pixel once for all taps of a row, for one width of kernels and one stride.
struct LanesRows {
  int kernel, stride;
  void (*const* inside)(const LanesTile& tile);  // by number of pixels less one
  void (*const* edges)(const LanesTile& tile);   // by LanesTile::pixels
};

/// The kernel compiled for one instruction set.
struct LanesKernel {
  InstructionSet set;
  int pixels;                              // P: the most pixels in a tile
  std::span<const LanesFunctions> widths;  // the longest first
  std::span<const LanesRows> rows;         // of the longest
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const LanesKernel> lanes_kernels();

/// One convolution, its work divided for a number of threads.
class LanesConv {
 public:
  /// Of a geometry that it takes().
  LanesConv(const ConvGeometry& geometry, const LanesKernel& kernel, int threads);
  /// Groups whose filters fill a vector, or parts of one.
  static bool takes(const ConvGeometry& geometry, const LanesKernel& kernel);

  std::string description() const;
  /// Floats of the packed weights: [OC] biases and [C] zeros, padded, then [blocks][KH, KW, C / groups, lanes].
  std::int64_t packed_size() const;
  /// `weight` [OC, C / groups, KH, KW], `bias` [OC] or null; `packed` is 64-byte aligned.
  void pack(const float* weight, const float* bias, float* packed) const;
  std::size_t workspace() const { return 0; }
  void run(const ChannelsLastPointers& pointers, const RowEpilogue& epilogue, ThreadPool& pool, float* workspace) const;

 private:
  static const LanesFunctions* functions(const ConvGeometry& geometry, const LanesKernel& kernel);
  struct Row;

  std::int64_t biases() const;
  void run_row(const Row& row, LanesTile tile) const;
  bool depthwise() const { return geometry_.group_in_channels() == 1 && geometry_.group_out_channels() == 1; }

  ConvGeometry geometry_;
  const LanesFunctions* functions_;
  const LanesRows* rows_ = nullptr;  // if there are some for the geometry
  int pixels_;
  int bands_ = 1, parts_ = 1;  // a task is some rows of an image, of some blocks
  std::vector<LaneBlock> blocks_;
  std::vector<std::int32_t> places_;
};

}  // namespace lamina::cpu
