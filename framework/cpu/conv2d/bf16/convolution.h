#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/codes.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/rules/live_window.h"
#include "lamina/tensor/constants.h"
#include "lamina/tensor/format.h"

/// Convolutions of bf16 as products of matrices, around any engine. docs/inside/cpu.md explains how.
///
/// A task is a band of output rows and a part of the filters of one image and group. It copies the rows that it reads
/// to blocks of 32 channels, between the zeros of the padding, where output positions that are neighbours, also from
/// row to row, are 32 elements apart for every tap: [block][phase][row][pitch][32]. Rows and columns are split by their
/// remainder modulo the stride (phases). So a tile is any stretch of positions; the few at the end of each row that are
/// no outputs are computed and left out. Of codes, where those few cost more than copies, each column of taps reads a
/// copy of its own, and there are none. A convolution 1x1 needs no copy where the engine can do without.
///
/// Where dilation puts many taps outside of the image, runs of columns that see the same taps are Layers of their own,
/// in which every tap reads a copy of its own, [tap][block][row][column][32], and a band leaves out the rows of taps
/// that none of its rows sees.
namespace lamina::cpu::bf16 {

/// What is decided once: how a geometry is laid out, divided, and packed.
struct Layer {
  /// `scaled`: Pointers::scale is there; only of is_of_pixels() layers whose input is bf16 nhwc.
  /// `band`: rows of outputs, or if linear positions, that convolve_rows() computes at most at a time; 0: as convolve()
  /// divides. `folds`: it may be folded, which sums in another order.
  Layer(const ConvGeometry& geometry, const Engine& engine, Format input, int threads, bool scaled = false,
        int band = 0, bool folds = true);
  /// Of those columns of the output alone.
  Layer(const ConvGeometry& geometry, const Engine& engine, Format input, int threads, const detail::SeenTaps& columns);

  ConvGeometry geometry;  // with no more columns and taps than it computes
  const Engine* engine;
  const Moves* moves;
  Format input;  // bf16 or f32
  bool scaled, folds = true;

  bool apart = false;        // some columns of the output, see above
  int first_column = 0;      // of the output
  int first_tap = 0;         // of the rows of the weights,
  int row_taps = 0;          // which have as many
  std::int64_t out_row = 0;  // pixels of a row of the output

  bool linear = false;  // 1x1: the pixels of all images are one column of positions
  bool direct = false;  // and are read where they lie
  int folded = 0;       // few channels: as many rows of taps, one or all, are as many more channels
  int channels = 0;     // of a tap
  int taps = 0;
  int blocks = 0;         // of step_channels
  int last_pairs = 0;     // of a step of the last block
  int filter_blocks = 0;  // of a group

  struct Phase {
    int row, column;
  };
  std::vector<Phase> phases;  // that some tap reads; apart: the taps' own
  int column_phases = 1;   // columns have as many: the stride's, or one for each column of taps, so that the pitch has
                           // no more positions than outputs
  int extra_rows = 0;      // of a band, copied beside one for each row of outputs
  int phase_rows = 0;      // all of them
  std::int64_t pitch = 0;  // positions of a row

  std::int64_t images = 1;                   // what tasks are divided by, besides groups
  std::int64_t rows = 0, row_positions = 0;  // of an image: OH and OW; if linear, N * OH * OW and 1
  int bands = 1, band_rows = 1, filter_parts = 1;

  std::vector<std::int64_t> offsets;  // [steps], in the order of packed weights: [block, tap]; apart: [tap, block]

  /// Of a step; AMX reads whole steps, so that the last one of pixels that are read where they lie may overlap the one
  /// before.
  int first_channel(int block) const;
  int tap_of(int step) const { return apart ? step / blocks : step % taps; }
  int block_of(int step) const { return apart ? step % blocks : step / taps; }
  int steps() const { return blocks * taps; }
  int whole_steps() const { return last_pairs == 16 ? steps() : (blocks - 1) * taps; }
  std::int64_t block_weights() const;  // bf16 numbers of a block of filters
  std::int64_t packed_size() const { return geometry.groups * filter_blocks * block_weights(); }
  std::int64_t bias_size() const { return std::int64_t{geometry.groups} * filter_blocks * engine->filters; }
  detail::Packing packing(std::string_view kind, int in_channels) const;

  // Of a thread's workspace, all multiples of 64.
  std::size_t copy_bytes() const;
  /// Of rows of the image as bf16 nhwc, if it is not that already, or between zeros: as many as are folded, a row of
  /// zeros and, of nchw, the row's channels before.
  std::size_t row_bytes() const;
  std::int64_t row_elements() const;  // of one of them
  std::size_t tile_bytes()
      const;  // of a tile's sums: of two tiles, and twice for functions that do not run in registers
  std::size_t workspace(int threads) const;

 private:
  void place_taps();
  void lay_out();
  void divide(int threads);
};

/// The Layers that compute a convolution, one after the other: usually one.
std::vector<Layer> layers_of(const ConvGeometry& geometry, const Engine& engine, Format input, int threads,
                             bool scaled = false, bool folds = true);

/// `weight` [OC, C / groups, KH, KW]; `packed` is 64-byte aligned, packed_size() numbers, rounded to nearest even.
void pack_weights(const Layer& layer, const float* weight, std::uint16_t* packed);
/// `bias` [OC] or null; `packed` is bias_size() floats.
void pack_bias(const Layer& layer, const float* bias, float* packed);

/// Both, from the store. `bias` may be undefined.
struct PackedLayer {
  Tensor weight, bias;
};
PackedLayer packed(const Layer& layer, const Tensor& weight, const Tensor& bias);

/// What becomes of sums of i32; its arrays are of Layer::bias_size().
struct Int8End {
  SumsEnd end;
  const CodesKernel* kernel = nullptr;
  Tensor offset = {};  // i32
  Tensor factor = {}, bias = {};
  std::optional<TwoCodes> two = {};  // Pointers::residual are codes that are added
  bool plain = false;                // as Tile::codes asks for
};

struct Pointers {
  const void* input = nullptr;            // [N, C, H, W] in Layer::input
  const std::uint16_t* weight = nullptr;  // as pack_weights() wrote it
  const float* bias = nullptr;            // as pack_bias() wrote it
  const void* residual = nullptr;         // as `output`, or null; may be `output`
  const bfloat16* scale = nullptr;        // [N, C]: the input's channels are multiplied by it; or null
  void* output = nullptr;                 // [N, OH, OW, OC]: bf16 or f32
  DType output_type = DType::bf16;
  // Elements from pixel to pixel, of an nhwc input of bf16, and of residual and output; 0: C and OC. The input's is
  // even where they are not C, and it begins at a multiple of 4 bytes.
  std::int64_t input_pitch = 0, output_pitch = 0;
  std::uint8_t padding = 0;           // each byte of what stands around the image
  const Int8End* int8_end = nullptr;  // where sums are i32, in place of bias and epilogue
};

/// `workspace` is 64-byte aligned and Layer::workspace() bytes, of as many threads as the pool has at most.
void convolve(const Layer& layer, const Pointers& pointers, const RowEpilogue& epilogue, ThreadPool& pool,
              std::byte* workspace);

/// Rows [first, first + count) of an image alone, in this thread, all groups; `output` is that of the first of them.
/// `workspace` is for one thread.
void convolve_rows(const Layer& layer, const Pointers& pointers, const RowEpilogue& epilogue, std::int64_t image,
                   std::int64_t first, std::int64_t count, std::byte* workspace);

}  // namespace lamina::cpu::bf16
