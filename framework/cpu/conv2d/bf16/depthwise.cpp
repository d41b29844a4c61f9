#include "lamina/cpu/conv2d/bf16/depthwise.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/depthwise_tile.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu::bf16 {
using detail::ceil_div;
using detail::round_up;

Depthwise::Depthwise(const ConvProblem& problem, const Preparation& p)
    : g_(problem.geometry),
      kernel_(best_kernel(depthwise_kernels(), p.device)),
      moves_(moves_of(p.device.instructions, true)),
      epilogue_(row_epilogue(problem.epilogue, p.device)),
      adds_(problem.epilogue.reads_operands()),
      output_(p.output().format.dtype),
      blocks_(ceil_div(g_.in_channels, kernel_.channels)) {
  const bool rounding = kernel_.run_rounding != nullptr && supports_avx512_bf16();
  run_ = rounding ? kernel_.run_rounding : kernel_.run;
  const auto function = written_function(epilogue_);
  in_registers_ = function && !epilogue_.adds && output_ == DType::bf16;
  if (in_registers_) function_ = *function;
  if (p.threads > 1)
    bands_ = std::clamp<std::int64_t>(4 * p.threads / std::max<std::int64_t>(1, g_.batch), 1, g_.out_height);
  pack(problem);
}

void Depthwise::operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           const Execution& execution) const {
  const Tensors tensors = {.input = static_cast<const bfloat16*>(inputs[0].raw()),
                           .residual = adds_ ? static_cast<const std::byte*>(inputs[1].raw()) : nullptr,
                           .output = static_cast<std::byte*>(outputs[0].raw())};
  execution.pool->parallel_for(g_.batch * bands_, [&](std::int64_t index, int worker) {
    std::byte* const own =
        static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * workspace_bytes();
    const std::int64_t band = index % bands_;
    for (std::int64_t row = g_.out_height * band / bands_; row < g_.out_height * (band + 1) / bands_; ++row) {
      run_row(tensors, index / bands_, row, own);
    }
  });
}

std::size_t Depthwise::pointer_bytes() const {
  return static_cast<std::size_t>(round_up<std::int64_t>(g_.kernel_height * std::int64_t{sizeof(void*)}, 64));
}

std::size_t Depthwise::tile_floats() const {
  return static_cast<std::size_t>(round_up(kernel_.positions * kernel_.channels, 16));
}

/// [block, row of taps, tap, even channels and odd ones], as bf16 rounds them. Where a block's channels begin is
/// first_channel().
void Depthwise::pack(const ConvProblem& problem) {
  const std::int64_t taps = std::int64_t{g_.kernel_height} * g_.kernel_width, size = kernel_.channels;
  weights_ = Tensor::zeros({blocks_ * taps * size});
  bias_ = Tensor::zeros({blocks_ * size});
  plain_bias_ = Tensor::zeros({blocks_ * size});
  const float* const weight = detail::floats(problem.weight);
  for (int block = 0; block < blocks_; ++block) {
    for (int i = 0; i < channels_of(block); ++i) {
      const std::int64_t c = first_channel(block) + i, place = i % 2 * (size / 2) + i / 2;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        detail::floats(weights_)[(block * taps + tap) * size + place] = to_float(to_bfloat16(weight[c * taps + tap]));
      }
      if (!problem.bias.defined()) continue;
      const float bias = detail::floats(problem.bias)[c];
      // What is written from sums has its bias added there.
      detail::floats(in_registers_ ? bias_ : plain_bias_)[block * size + (in_registers_ ? place : i)] = bias;
    }
  }
}

/// The last block overlaps the one before, if nothing is added to what is there.
std::int64_t Depthwise::first_channel(int block) const {
  const int first = block * kernel_.channels, last = g_.in_channels - kernel_.channels;
  return in_registers_ && last >= 0 ? std::min(first, last) : first;
}

int Depthwise::channels_of(int block) const {
  return static_cast<int>(std::min<std::int64_t>(kernel_.channels, g_.in_channels - first_channel(block)));
}

void Depthwise::run_row(const Tensors& tensors, std::int64_t image, std::int64_t row, std::byte* workspace) const {
  const std::int64_t top = row * g_.stride_height - g_.padding_height, dilation = g_.dilation_height;
  const std::int64_t first = top < 0 ? std::min<std::int64_t>(ceil_div(-top, dilation), g_.kernel_height) : 0;
  const std::int64_t last = std::clamp<std::int64_t>(top < g_.in_height ? (g_.in_height - 1 - top) / dilation + 1 : 0,
                                                     first, g_.kernel_height);
  const std::int64_t start = image * g_.in_height + top + first * dilation;  // of the rows that there are
  for (std::int64_t tile = 0; tile < g_.out_width; tile += kernel_.positions) {
    for (int block = 0; block < blocks_; ++block) {
      run_tile(tensors, start, static_cast<int>(first), static_cast<int>(last - first),
               (image * g_.out_height + row) * g_.out_width, tile, block, workspace);
    }
  }
}

/// Outputs from column `tile` on of the row that begins at pixel `out_row`; `count` rows of taps from the `first` on
/// read rows of all images from `start` on.
void Depthwise::run_tile(const Tensors& tensors, std::int64_t start, int first, int count, std::int64_t out_row,
                         std::int64_t tile, int block, std::byte* workspace) const {
  const int size = kernel_.channels, channels = channels_of(block);
  const std::int64_t channel = first_channel(block), taps = std::int64_t{g_.kernel_height} * g_.kernel_width;
  const std::int64_t begin = std::clamp<std::int64_t>(g_.out_width - kernel_.positions, 0, tile);
  const std::int64_t left = begin * g_.stride_width - g_.padding_width;
  auto** const rows = reinterpret_cast<const bfloat16**>(workspace);
  for (int i = 0; i < count; ++i) {
    const std::int64_t row = (start + std::int64_t{i} * g_.dilation_height - tensors.first_row) * g_.in_width;
    rows[i] = tensors.input + row * g_.in_channels + channel;
  }
  auto* const sums = reinterpret_cast<float*>(workspace + pointer_bytes());
  const std::int64_t stored = std::min<std::int64_t>(kernel_.positions, g_.out_width);
  DepthwiseTile t = {
      .rows = rows,
      .kernel_rows = count,
      .kernel_columns = g_.kernel_width,
      .channels = channels,
      .pixel = g_.in_channels,
      .left = left,
      .columns = g_.in_width,
      .stride = g_.stride_width,
      .dilation = g_.dilation_width,
      .weights = detail::floats(weights_) + (block * taps + std::int64_t{first} * g_.kernel_width) * size,
      .bias = detail::floats(bias_) + std::int64_t{block} * size,
      .count = static_cast<int>(stored),
      .low = epilogue_.low,
      .high = epilogue_.high,
      .function = function_};
  if (in_registers_) {
    t.output = reinterpret_cast<bfloat16*>(tensors.output) + (out_row + begin) * g_.out_channels + channel;
    t.output_pixel = g_.out_channels;
    return run_(t);
  }
  t.sums = sums;
  run_(t);
  const std::int64_t known = tile - begin;  // were written by the tile before
  const std::int64_t place = ((out_row + tile) * g_.out_channels + channel) * (output_ == DType::bf16 ? 2 : 4);
  finish(moves_, epilogue_,
         {.sums = sums + known * size,
          .row = size,
          .bias = detail::floats(plain_bias_) + std::int64_t{block} * size,
          .output = tensors.output + place,
          .pixel = g_.out_channels,
          .count = stored - known,
          .filters = channels},
         output_, adds_ ? tensors.residual + place : nullptr, sums + tile_floats(), sums + 2 * tile_floats());
}

std::string Depthwise::description() const {
  return detail::concat("bf16_lanes: f32 multiply-adds, ", kernel_.positions, " pixels x ", kernel_.channels,
                        " channels, ", name(kernel_.set));
}

bool takes_depthwise(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (g.groups != g.in_channels || g.groups != g.out_channels) return false;
  if (p.precision != Precision::bf16 || problem.scaled || !problem.epilogue.is_residual()) return false;
  const auto narrow = [](const View& view) { return view.format == Format{DType::bf16, Layout::nhwc}; };
  const View& output = p.output();
  if (!narrow(p.input()) || !(narrow(output) || output.format == Format{DType::f32, Layout::nhwc})) return false;
  return !problem.epilogue.reads_operands() || (p.inputs.size() > 1 && p.inputs[1].format == output.format);
}

std::unique_ptr<Operator> prepare_depthwise(const ConvProblem& problem, const Preparation& p) {
  Depthwise depthwise(problem, p);
  const std::string description = depthwise.description();
  const detail::OperatorTraits memory = {.workspace = depthwise.workspace_bytes() * static_cast<std::size_t>(p.threads),
                                         .parameters = depthwise.parameters()};
  return detail::make_operator(description, memory, std::move(depthwise));
}

}  // namespace lamina::cpu::bf16
