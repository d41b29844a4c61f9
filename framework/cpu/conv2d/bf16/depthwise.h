#pragma once

#include "lamina/cpu/conv2d/bf16/depthwise_tile.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu::bf16 {

/// A filter for each channel: bf16 nhwc to bf16 or f32 nhwc. Values become floats in registers, 32 channels at a time;
/// products and sums are f32.
bool takes_depthwise(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_depthwise(const ConvProblem& problem, const Preparation& preparation);

/// Row by row, tile by tile, all channels of it: what is read lies in as many streams as a tile reads positions.
class Depthwise {
 public:
  /// Of a problem that is taken.
  Depthwise(const ConvProblem& problem, const Preparation& p);

  struct Tensors {
    const bfloat16* input = nullptr;  // from row `first_row` on, rows of all images counted on
    std::int64_t first_row = 0;
    const std::byte* residual = nullptr;
    std::byte* output = nullptr;
  };
  /// One row of an image's output. `workspace` is workspace_bytes().
  void run_row(const Tensors& tensors, std::int64_t image, std::int64_t row, std::byte* workspace) const;
  /// All of them, by a pool's threads.
  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const;

  std::size_t workspace_bytes() const { return pointer_bytes() + 3 * tile_floats() * 4; }  // of a thread
  std::size_t parameters() const { return weights_.bytes() + bias_.bytes() + plain_bias_.bytes(); }
  std::string description() const;

 private:
  std::size_t pointer_bytes() const;
  std::size_t tile_floats() const;
  void pack(const ConvProblem& problem);
  std::int64_t first_channel(int block) const;
  int channels_of(int block) const;
  void run_tile(const Tensors& tensors, std::int64_t start, int first, int count, std::int64_t out_row,
                std::int64_t tile, int block, std::byte* workspace) const;

  ConvGeometry g_;
  const DepthwiseKernel& kernel_;
  const Moves& moves_;
  RowEpilogue epilogue_;
  bool adds_;
  DType output_;
  int blocks_;
  std::int64_t bands_ = 1;
  void (*run_)(const DepthwiseTile& tile) = nullptr;
  bool in_registers_ = false;  // all of the epilogue
  Pointwise function_ = Pointwise::identity;
  Tensor weights_, bias_, plain_bias_;
};

}  // namespace lamina::cpu::bf16
