#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/conv2d/lanes/tile.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Convolutions of few channels a group, depthwise above all, channels last: a vector's lanes are neighbouring output
/// channels of as many groups as it holds. Each lane multiplies a channel of its own group, which is the one at the
/// same place (depthwise) or is brought there by a permutation of the vector, not of bf16. Products and sums are f32.
namespace lamina::cpu {

/// The row of inputs of that type: f32 to f32, or bf16 to bf16 or f32, or u8 or i8 to whatever detail::is_eight_bits
/// says.
bool takes_lanes(DType input, const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_lanes(DType input, const ConvProblem& problem, const Preparation& preparation);

/// Row by row, tile by tile, all channels of it: what is read lies in as many streams as a tile reads positions.
class LanesConv {
 public:
  /// Of a problem that is taken, whose input is of that type.
  LanesConv(const ConvProblem& problem, DType input, const Preparation& p);

  struct Tensors {
    const std::byte* input = nullptr;  // from row `first_row` on, rows of all images counted on
    std::int64_t first_row = 0;
    bool near = false;  // in a cache: nothing is fetched
    const std::byte* residual = nullptr;
    std::byte* output = nullptr;
  };
  /// One row of an image's output. `workspace` is workspace_bytes().
  void run_row(const Tensors& tensors, std::int64_t image, std::int64_t row, std::byte* workspace) const {
    run_row(tensors, image, row, 0, static_cast<int>(blocks_.size()), workspace);
  }
  /// All of them, by a pool's threads.
  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const;

  std::size_t workspace_bytes() const { return pointer_bytes() + 3 * tile_floats() * sizeof(float); }  // of a thread
  std::string description() const;

 private:
  bool depthwise() const { return g_.groups == g_.in_channels && g_.groups == g_.out_channels; }
  std::size_t pointer_bytes() const;
  std::size_t tile_floats() const;
  void divide(int threads);
  void pack(const ConvProblem& problem);
  void pack_codes(const ConvProblem& problem, const Preparation& p);
  void pack_fours(const ConvProblem& problem, const Preparation& p);
  void finish_codes(LanesTile tile, std::byte* output, std::int32_t* sums) const;
  void run_row(const Tensors& tensors, std::int64_t image, std::int64_t row, int first_block, int last_block,
               std::byte* workspace) const;
  void finish_block(LanesTile tile, int block, const Tensors& tensors, std::int64_t pixel, std::byte* workspace) const;

  ConvGeometry g_;
  DType input_, output_;
  const LanesKernel& kernel_;
  const bf16::Moves& moves_;
  RowEpilogue epilogue_;
  bool adds_;
  std::int64_t from_, to_;  // elements from pixel to pixel
  std::vector<LanesBlock> blocks_;
  std::vector<std::int32_t> places_;
  std::int64_t bands_ = 1;  // a task is some rows of an image, of a part of the blocks
  int parts_ = 1;
  void (*run_)(const LanesTile& tile) = nullptr;
  bool in_registers_ = false;  // all of the epilogue
  Pointwise function_ = Pointwise::identity;
  Tensor weights_, bias_, plain_bias_, zeros_;
  std::optional<bf16::Int8End> codes_;  // of inputs of u8 and i8; by channel
};

}  // namespace lamina::cpu
