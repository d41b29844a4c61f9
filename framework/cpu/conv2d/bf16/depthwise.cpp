// Convolutions of a filter for each channel, written once and compiled for each instruction set.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/bf16/depthwise.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/depthwise.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/make_operator.h"

#ifndef LAMINA_CPU_CONV2D_BF16_DEPTHWISE
#define LAMINA_CPU_CONV2D_BF16_DEPTHWISE
namespace lamina::cpu::bf16 {
namespace {

/// One row of outputs of step_channels channels.
struct DepthwiseRow {
  const float* input;           // [positions, step_channels], of the first output's first tap
  const std::int64_t* offsets;  // [taps] from there
  int taps;
  const float* weights;  // [taps, step_channels]
  std::int64_t stride;   // elements from one output's input to the next's
  float* sums;           // [count, step_channels]
  std::int64_t count;
};

struct DepthwiseKernel {
  InstructionSet set;
  void (*run)(const DepthwiseRow& row);
};

}  // namespace
}  // namespace lamina::cpu::bf16
#endif

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

/// P outputs from `first` on, one vector of channels from `channel` on.
template <int P>
HWY_INLINE void outputs(const DepthwiseRow& r, std::int64_t first, int channel) {
  const Tag d;
  hn::Vec<Tag> sums[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sums[p] = hn::Zero(d);
  const float* const input = r.input + first * r.stride + channel;
  const float* weights = r.weights + channel;
  for (int tap = 0; tap < r.taps; ++tap, weights += step_channels) {
    const auto weight = hn::Load(d, weights);
    const float* x = input + r.offsets[tap];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p, x += r.stride) sums[p] = hn::MulAdd(weight, hn::Load(d, x), sums[p]);
  }
  float* to = r.sums + first * step_channels + channel;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p, to += step_channels) hn::Store(sums[p], d, to);
}

template <int P>
void tiles(const DepthwiseRow& r, int channel) {
  for (std::int64_t i = 0; i + P < r.count; i += P) outputs<P>(r, i, channel);
  outputs<P>(r, r.count - P, channel);  // some perhaps twice
}

void run(const DepthwiseRow& r) {
  for (int channel = 0; channel < step_channels; channel += lanes) {
    if (r.count >= 8) {
      tiles<8>(r, channel);
    } else if (r.count >= 4) {
      tiles<4>(r, channel);
    } else {
      tiles<1>(r, channel);
    }
  }
}

constexpr DepthwiseKernel kernel = {LAMINA_SIMD_SET, run};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Bytes of a band of rows as f32: they stay in the L2 cache.
constexpr std::int64_t band_bytes = 256 << 10;

class Depthwise {
 public:
  Depthwise(const ConvProblem& problem, const Preparation& p)
      : g_(problem.geometry),
        moves_(moves_of(p.device.instructions, true)),
        epilogue_(row_epilogue(problem.epilogue, p.device)),
        adds_(problem.epilogue.reads_operands()),
        output_(p.output().format.dtype),
        width_((g_.out_width - 1) * g_.stride_width + (g_.kernel_width - 1) * g_.dilation_width + 1),
        blocks_(ceil_div(g_.in_channels, step_channels)) {
    run_ = best_kernel(LAMINA_SIMD_KERNELS(kernel), p.device).run;
    divide(p.threads);
    pack(problem);
  }

  std::size_t workspace(int threads) const { return static_cast<std::size_t>(floats_of_thread() * threads) * 4; }
  std::size_t parameters() const { return weights_.bytes() + bias_.bytes(); }

  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    execution.pool->parallel_for(g_.batch * bands_ * blocks_, [&](std::int64_t index, int worker) {
      const auto block = static_cast<int>(index % blocks_);
      const auto band = index / blocks_ % bands_;
      run_band(index / blocks_ / bands_, g_.out_height * band / bands_, g_.out_height * (band + 1) / bands_, block,
               inputs, outputs, static_cast<float*>(execution.workspace) + worker * floats_of_thread());
    });
  }

 private:
  std::int64_t rows_read(std::int64_t rows) const {
    return (rows - 1) * g_.stride_height + (g_.kernel_height - 1) * g_.dilation_height + 1;
  }
  std::int64_t copy_floats() const {
    return rows_read(ceil_div<std::int64_t>(g_.out_height, bands_)) * width_ * step_channels;
  }
  std::int64_t row_floats() const { return std::int64_t{g_.out_width} * step_channels; }
  std::int64_t floats_of_thread() const { return copy_floats() + 3 * row_floats(); }

  void divide(int threads) {
    // A few tasks for each thread, and bands that the cache holds.
    while (bands_ < g_.out_height &&
           (copy_floats() * 4 > band_bytes || g_.batch * bands_ * blocks_ < (threads > 1 ? 4 * threads : 1))) {
      ++bands_;
    }
    const std::int64_t row = width_ * step_channels;
    for (int kh = 0; kh < g_.kernel_height; ++kh) {
      for (int kw = 0; kw < g_.kernel_width; ++kw) {
        offsets_.push_back(kh * g_.dilation_height * row + std::int64_t{kw} * g_.dilation_width * step_channels);
      }
    }
  }

  /// [block, tap, channel], as bf16 rounds them.
  void pack(const ConvProblem& problem) {
    const auto taps = static_cast<std::int64_t>(offsets_.size());
    weights_ = Tensor::zeros({blocks_ * taps * step_channels});
    bias_ = Tensor::zeros({blocks_ * std::int64_t{step_channels}});
    const float* const weight = detail::floats(problem.weight);
    for (int c = 0; c < g_.in_channels; ++c) {
      float* const to = detail::floats(weights_) + c / step_channels * taps * step_channels + c % step_channels;
      for (std::int64_t tap = 0; tap < taps; ++tap)
        to[tap * step_channels] = to_float(to_bfloat16(weight[c * taps + tap]));
      if (problem.bias.defined()) detail::floats(bias_)[c] = detail::floats(problem.bias)[c];
    }
  }

  void run_band(std::int64_t image, std::int64_t first, std::int64_t last, int block, std::span<const Tensor> inputs,
                std::span<Tensor> outputs, float* workspace) const {
    const int channel = block * step_channels, channels = std::min(step_channels, g_.in_channels - channel);
    copy_rows(static_cast<const bfloat16*>(inputs[0].raw()) + image * g_.in_pixels() * g_.in_channels + channel,
              channels, first * g_.stride_height - g_.padding_height, rows_read(last - first), workspace);
    float* const sums = workspace + copy_floats();
    const auto taps = static_cast<int>(offsets_.size());
    const std::int64_t size = output_ == DType::bf16 ? 2 : 4;
    for (std::int64_t row = first; row < last; ++row) {
      run_({.input = workspace + (row - first) * g_.stride_height * width_ * step_channels,
            .offsets = offsets_.data(),
            .taps = taps,
            .weights = detail::floats(weights_) + std::int64_t{block} * taps * step_channels,
            .stride = std::int64_t{g_.stride_width} * step_channels,
            .sums = sums,
            .count = g_.out_width});
      const std::int64_t place = (((image * g_.out_height + row) * g_.out_width) * g_.out_channels + channel) * size;
      finish(moves_, epilogue_,
             {.sums = sums,
              .row = step_channels,
              .bias = detail::floats(bias_) + channel,
              .output = static_cast<std::byte*>(outputs[0].raw()) + place,
              .pixel = g_.out_channels,
              .count = g_.out_width,
              .filters = channels},
             output_, adds_ ? static_cast<const std::byte*>(inputs[1].raw()) + place : nullptr, sums + row_floats(),
             sums + 2 * row_floats());
    }
  }

  /// Rows [top, top + rows) of the padded image as f32, channels of one block.
  void copy_rows(const bfloat16* image, int channels, std::int64_t top, std::int64_t rows, float* to) const {
    const std::int64_t left = std::min<std::int64_t>(g_.padding_width, width_);
    const std::int64_t there = std::clamp<std::int64_t>(width_ - left, 0, g_.in_width);
    const auto zero = [](float* from, std::int64_t positions) { std::fill_n(from, positions * step_channels, 0.0f); };
    for (std::int64_t row = top; row < top + rows; ++row, to += width_ * step_channels) {
      if (row < 0 || row >= g_.in_height) {
        zero(to, width_);
        continue;
      }
      zero(to, left);
      moves_.spread_widened({.from = image + row * g_.in_width * g_.in_channels,
                             .pixel = g_.in_channels,
                             .count = there,
                             .channels = channels,
                             .to = to + left * step_channels,
                             .block = 0});
      zero(to + (left + there) * step_channels, width_ - left - there);
    }
  }

  ConvGeometry g_;
  const Moves& moves_;
  RowEpilogue epilogue_;
  bool adds_;
  DType output_;
  std::int64_t width_;  // positions of a padded row, as far as outputs read it
  int blocks_;
  void (*run_)(const DepthwiseRow& row) = nullptr;
  std::int64_t bands_ = 1;
  std::vector<std::int64_t> offsets_;
  Tensor weights_, bias_;
};

}  // namespace

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
  const detail::OperatorMemory memory = {.workspace = depthwise.workspace(p.threads),
                                         .parameters = depthwise.parameters()};
  return detail::make_operator(
      detail::concat("bf16_lanes: f32 multiply-adds of 32 channels, ", name(p.device.instructions)), memory,
      std::move(depthwise));
}

}  // namespace lamina::cpu::bf16
#endif
