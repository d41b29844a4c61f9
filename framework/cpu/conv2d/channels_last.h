#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/rules/live_window.h"
#include "lamina/tensor/tensor.h"

/// Register-blocked convolution of channels-last activations: weights packed once, vectors of filters, written as they
/// are.
///
/// A tile is P neighbouring output pixels times V vectors of filters, and stays in registers while it runs through a
/// chunk of the reduction [KH, KW, C / groups]: each step loads V vectors of packed weights, broadcasts P input values
/// straight from the image, and issues P x V multiply-adds. docs/inside/cpu.md has the reasons.
namespace lamina::cpu {

/// Neighbouring terms of a reduction that are neighbours in every pixel's memory too.
struct Stretch {         // without values of its own, or two arrays of 4 KB are cleared for each block of a chunk
  std::int64_t input;    // floats from the window's first row and column
  std::int64_t weights;  // floats from the chunk's first weight
  int count;             // terms
  int kernel_row, kernel_column;
};

/// P neighbouring pixels times V vectors of filters, over some stretches of a chunk.
struct ChannelsLastTile {
  const float* input = nullptr;  // at the first pixel's window
  std::int64_t pixel = 0;        // floats from pixel to pixel
  const Stretch* stretches = nullptr;
  int count = 0;                                // of them
  const float* weights = nullptr;               // [terms, V * lanes] of the chunk, aligned to a vector
  const float* fetch = nullptr;                 // wanted afterwards: a line is fetched with each term
  std::int64_t fetch_step = 0, fetch_skip = 0;  // floats to the next one, and further behind a stretch
  const float* before = nullptr;                // [P, next_before]: what to add to, biases or the sums so far
  std::int64_t next_before = 0;
  float* output = nullptr;  // [P, pitch]
  std::int64_t pitch = 0;
  int filters = 0;                      // that exist: at most V * lanes
  const float* residual = nullptr;      // [P, pitch], or null
  const RowEpilogue* finish = nullptr;  // of the last chunk; null: none
};

/// The tiles of one number of vectors of filters.
struct ChannelsLastTiles {
  int pixels;                                              // P: the most in a tile
  void (*const* functions)(const ChannelsLastTile& tile);  // by number of pixels less one
};

/// The kernel compiled for one instruction set.
struct ChannelsLastKernel {
  InstructionSet set;
  int lanes;                                 // L: floats in a vector
  std::span<const ChannelsLastTiles> tiles;  // by number of vectors of filters less one
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const ChannelsLastKernel> channels_last_kernels();

/// Its operands.
struct ChannelsLastPointers {
  const float* input = nullptr;     // [N, H, W, C]
  const float* packed = nullptr;    // what pack() wrote
  const float* residual = nullptr;  // [N, OH, OW, OC]: input 1 of the epilogue, if it has one
  float* output = nullptr;          // [N, OH, OW, OC]
  // Floats from pixel to pixel, of the input, and of residual and output; 0: C and OC.
  std::int64_t input_pitch = 0, output_pitch = 0;
  const float* scale = nullptr;  // [N, C]: of the channels of the input, if the convolution is `scaled`
};

/// One convolution, its work divided for a number of threads.
class ChannelsLastConv {
 public:
  /// `scaled`: the channels of each image are multiplied by numbers of theirs as its rows are copied.
  ChannelsLastConv(const ConvGeometry& geometry, const ChannelsLastKernel& kernel, int threads, bool scaled = false);

  /// For people.
  std::string description() const;
  /// Floats of the packed weights: [groups, filters], padded, of biases, then [groups][chunks][blocks][terms, filters
  /// of the block].
  std::int64_t packed_size() const;
  /// `weight` [OC, C / groups, KH, KW], `bias` [OC] or null; `packed` is 64-byte aligned.
  void pack(const float* weight, const float* bias, float* packed) const;
  /// The same from the store.
  Tensor packed(const Tensor& weight, const Tensor& bias) const;

  /// Bytes.
  std::size_t workspace() const;
  /// `workspace` is 64-byte aligned; the pool has as many threads as was said.
  void run(const ChannelsLastPointers& pointers, const RowEpilogue& epilogue, ThreadPool& pool, float* workspace) const;
  /// Pixels [first, last) of all images of a pixelwise 1x1 convolution, in this thread; `output` begins with the first
  /// of them. `workspace` is pixels_workspace(last - first) bytes.
  void run_pixels(const ChannelsLastPointers& pointers, const RowEpilogue& epilogue, std::int64_t first,
                  std::int64_t last, float* workspace) const;
  std::size_t pixels_workspace(std::int64_t pixels) const;

 private:
  struct Task;

  static constexpr std::int64_t line = 16;          // floats in a cache line: buffers start on one
  static constexpr std::int64_t chunk_terms = 128;  // the longest chain of multiply-adds: docs/inside/precision.md

  int block_vectors(int block) const { return std::min(wide_, vectors_ - block * wide_); }
  int block_size(int block) const { return block_vectors(block) * kernel_->lanes; }
  int first_filter(int block) const { return block * wide_ * kernel_->lanes; }
  int padded() const { return vectors_ * kernel_->lanes; }  // filters of a group
  const ChannelsLastTiles& tiles(int block) const {
    return kernel_->tiles[static_cast<std::size_t>(block_vectors(block) - 1)];
  }
  int tile_pixels(int block) const { return std::min(tiles(block).pixels, max_pixels_); }
  bool copies() const { return scaled_ || (geometry_.zeros_right() > 0 && !leaves_taps_out_); }
  std::int64_t rows_read(std::int64_t rows) const;
  int tiles_of(int block, int first_column, int last_column) const;
  void choose_columns();
  void divide();
  void copy_rows(const Task& task, const ChannelsLastPointers& p, const ApplyKernel& functions, float* copy) const;
  int stretches_of(std::int64_t begin, std::int64_t end, int size, std::int64_t most, const Task& task,
                   Stretch* out) const;
  int inside_image(std::span<const Stretch> stretches, int top, const detail::SeenTaps& seen, Stretch* out) const;
  void run_task(const Task& task, const ChannelsLastPointers& p, const RowEpilogue& epilogue, float* sums) const;
  void finish(const Task& task, const ChannelsLastPointers& p, const RowEpilogue& epilogue) const;

  ConvGeometry geometry_;  // with all pixels in one row, if they can be, or an image's in a few
  const ChannelsLastKernel* kernel_;
  int threads_;
  bool scaled_;
  int vectors_ = 0, blocks_ = 0;  // of filters of a group
  int wide_ = 1;                  // vectors of a block, but for the last
  int max_pixels_ = 0;            // of a tile, whatever the registers hold
  std::int64_t chunk_ = 0, chunks_ = 0;
  std::vector<detail::SeenTaps> columns_;  // all of them, from left to right
  bool leaves_taps_out_ = false;           // that are not seen, or reads zeros there
  // A task is some rows of an image, or some images, or some pixels of the only row, and a part of the blocks.
  std::int64_t images_ = 1, bands_ = 1, spans_ = 1;
  int block_parts_ = 1;
  std::int64_t copy_floats_ = 0, sum_floats_ = 0;
};

}  // namespace lamina::cpu
