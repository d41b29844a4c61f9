#include "lamina/cpu/conv2d/bf16/pair.h"

#include <algorithm>
#include <functional>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/conv2d/bf16/kernels.h"
#include "lamina/cpu/conv2d/lanes.h"
#include "lamina/cpu/pool2d/channels.h"
#include "lamina/cpu/pool2d/window.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

constexpr Format narrow = {DType::bf16, Layout::nhwc};

/// Pixels that a tile of positions reads even if it has fewer.
constexpr int least_width = 16;

View output_of(const ConvGeometry& g) {
  return {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}, .format = narrow};
}

/// What follows, by rows of its outputs.
struct Follower {
  std::int64_t out_height = 0;
  int kernel = 1, stride = 1, padding = 0, dilation = 1;  // vertical
  std::size_t workspace = 0, parameters = 0;              // the former of a thread
  std::string description = {};
  /// One row of an image. `between` begins with row `first_row` of all images' rows.
  std::function<void(const bfloat16* between, std::int64_t first_row, std::byte* output, std::int64_t image,
                     std::int64_t row, std::byte* workspace)>
      run = {};

  std::int64_t reach() const { return std::int64_t{kernel - 1} * dilation + 1; }
};

class Pair {
 public:
  Pair(const ConvProblem& first, Follower second, const Preparation& p)
      : engine_(best_engine(p.device)),
        g_(first.geometry),
        second_(std::move(second)),
        rows_(divide(p.threads)),
        first_(g_, engine_, p.input().format, 1, false, rows_ * (pixelwise(g_) ? g_.out_width : 1)),
        epilogue_(row_epilogue({.chain = first.epilogue.chain}, p.device)),
        weight_(Shape{first_.packed_size()}, DType::bf16),
        bias_(Shape{first_.bias_size()}),
        input_pitch_(p.input().channels) {
    pack_weights(first_, detail::floats(first.weight), static_cast<std::uint16_t*>(weight_.raw()));
    pack_bias(first_, first.bias.defined() ? detail::floats(first.bias) : nullptr, detail::floats(bias_));
  }

  std::size_t workspace_bytes() const { return rows_bytes() + first_.workspace(1) + second_.workspace; }
  std::size_t parameters() const { return weight_.bytes() + bias_.bytes() + second_.parameters; }
  std::string description() const {
    return detail::concat("bf16: ", engine_.what, ", ", engine_.positions, " pixels x ", engine_.filters,
                          " filters, then ", second_.description, ", ", rows_, " rows at a time");
  }

  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    execution.pool->parallel_for(g_.batch * bands_, [&](std::int64_t index, int worker) {
      std::byte* const between =
          static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * workspace_bytes();
      std::byte* const own = between + rows_bytes();
      const std::int64_t image = index / bands_, band = index % bands_;
      const std::int64_t first = second_.out_height * band / bands_, last = second_.out_height * (band + 1) / bands_;
      const std::int64_t begin = std::clamp<std::int64_t>(first * second_.stride - second_.padding, 0, g_.out_height);
      const std::int64_t end = std::clamp<std::int64_t>((last - 1) * second_.stride - second_.padding + second_.reach(),
                                                        begin, g_.out_height);
      if (end > begin) {
        convolve_rows(first_,
                      {.input = inputs[0].raw(),
                       .weight = static_cast<const std::uint16_t*>(weight_.raw()),
                       .bias = detail::floats(bias_),
                       .output = between,
                       .input_pitch = input_pitch_},
                      epilogue_, image, begin, end - begin, own);
      }
      for (std::int64_t row = first; row < last; ++row) {
        second_.run(reinterpret_cast<const bfloat16*>(between), image * g_.out_height + begin,
                    static_cast<std::byte*>(outputs[0].raw()), image, row, own + first_.workspace(1));
      }
    });
  }

 private:
  /// Rows of what lies between, of a band at most: what a quarter of the cache holds, as many bands as threads share
  /// out evenly.
  int divide(int threads) {
    const std::int64_t most = engine_.cache / 4 / (std::int64_t{g_.out_width} * g_.out_channels * 2);
    const std::int64_t tall = std::max<std::int64_t>(1, (most - second_.reach()) / second_.stride + 1);
    bands_ = ceil_div<std::int64_t>(second_.out_height, tall);
    while (bands_ < second_.out_height && g_.batch * bands_ % threads != 0) ++bands_;
    const std::int64_t outputs = ceil_div<std::int64_t>(second_.out_height, bands_);
    return static_cast<int>(std::min<std::int64_t>(g_.out_height, (outputs - 1) * second_.stride + second_.reach()));
  }

  std::size_t rows_bytes() const {
    const std::int64_t bytes = std::int64_t{rows_} * g_.out_width * g_.out_channels * 2;
    return static_cast<std::size_t>(detail::round_up<std::int64_t>(bytes, 64));
  }

  const Engine& engine_;
  ConvGeometry g_;  // of the first
  Follower second_;
  std::int64_t bands_ = 1;  // of an image
  int rows_;
  Layer first_;
  RowEpilogue epilogue_;
  Tensor weight_, bias_;
  std::int64_t input_pitch_;
};

/// Whether there is an engine for the convolution, and it is worth while: the caches of the threads do not hold all of
/// what it gives.
bool begins_pair(const ConvProblem& first, const Preparation& p) {
  const ConvGeometry& g = first.geometry;
  if (!p.algorithm.empty() || p.inputs.size() != 1 || first.scaled || g.groups != 1 || g.out_width < least_width) {
    return false;
  }
  if (p.output().is_slice() || p.output().format != narrow) return false;
  const View between = output_of(g);
  Preparation alone = p;
  alone.outputs = {&between, 1};
  const Engine& engine = best_engine(p.device);
  const bool taken = engine.unit == Unit::amx   ? takes<Unit::amx>(first, alone)
                     : engine.unit == Unit::dot ? takes<Unit::dot>(first, alone)
                                                : takes<Unit::multiply_add>(first, alone);
  const auto caches = static_cast<std::size_t>(p.threads) * static_cast<std::size_t>(engine.cache);
  return taken && detail::bytes_of(between.shape, narrow) > caches / 2;
}

std::unique_ptr<Operator> prepare(const ConvProblem& first, Follower second, const Preparation& p) {
  Pair pair(first, std::move(second), p);
  const std::string description = pair.description();
  const detail::OperatorTraits memory = {.workspace = pair.workspace_bytes() * static_cast<std::size_t>(p.threads),
                                         .parameters = pair.parameters()};
  return detail::make_operator(description, memory, std::move(pair));
}

/// A row of windows, of which those beyond the edge hold fewer pixels.
void pool_row(const ChannelPoolKernel& kernel, const PoolGeometry& g, std::int64_t channels, const bfloat16* between,
              std::int64_t first_row, std::byte* output, std::int64_t image, std::int64_t row) {
  const std::int64_t top = row * g.stride_height - g.padding_height;
  const InsideTaps down(top, g.in_height, g.kernel_height, g.dilation_height);
  const std::int64_t begin = image * g.in_height + top + down.first * g.dilation_height - first_row;
  auto* to = reinterpret_cast<bfloat16*>(output) + (image * g.out_height + row) * g.out_width * channels;
  for (int ow = 0; ow < g.out_width; ++ow, to += channels) {
    const std::int64_t left = std::int64_t{ow} * g.stride_width - g.padding_width;
    const InsideTaps across(left, g.in_width, g.kernel_width, g.dilation_width);
    const bool any = down.last > down.first && across.last > across.first;
    const std::int64_t corner = any ? begin * g.in_width + left + across.first * g.dilation_width : 0;
    kernel.bf16.largest({.first = between + corner * channels,
                         .rows = any ? down.last - down.first : 0,
                         .columns = any ? across.last - across.first : 0,
                         .row = std::int64_t{g.in_width} * g.dilation_height * channels,
                         .column = g.dilation_width * channels,
                         .channels = channels,
                         .divisor = 1,
                         .output = to});
  }
}

}  // namespace

bool takes_pair(const ConvPairProblem& problem, const Preparation& p) {
  if (!begins_pair(problem.first, p)) return false;
  const View between = output_of(problem.first.geometry);
  Preparation behind = p;
  behind.inputs = {&between, 1};
  return takes_lanes<DType::bf16>(problem.second, behind);
}

std::unique_ptr<Operator> prepare_pair(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.second.geometry;
  Follower second = {.out_height = g.out_height,
                     .kernel = g.kernel_height,
                     .stride = g.stride_height,
                     .padding = g.padding_height,
                     .dilation = g.dilation_height};
  const auto depthwise = std::make_shared<const LanesConv>(problem.second, DType::bf16, p);
  second.workspace = depthwise->workspace_bytes();
  second.parameters = depthwise->parameters();
  second.description = depthwise->description();
  second.run = [depthwise](const bfloat16* between, std::int64_t first_row, std::byte* output, std::int64_t image,
                           std::int64_t row, std::byte* workspace) {
    depthwise->run_row({.input = reinterpret_cast<const std::byte*>(between), .first_row = first_row, .output = output},
                       image, row, workspace);
  };
  return prepare(problem.first, std::move(second), p);
}

bool takes_pooled(const ConvProblem& problem, const Preparation& p) {
  if (!problem.epilogue.pool) return false;
  ConvProblem first = problem;
  first.epilogue.pool.reset();
  return begins_pair(first, p);
}

std::unique_ptr<Operator> prepare_pooled(const ConvProblem& problem, const Preparation& p) {
  const PoolGeometry& g = *problem.epilogue.pool;
  Follower second = {.out_height = g.out_height,
                     .kernel = g.kernel_height,
                     .stride = g.stride_height,
                     .padding = g.padding_height,
                     .dilation = g.dilation_height,
                     .description = "the largest of windows"};
  const ChannelPoolKernel& kernel = best_kernel(channel_pool_kernels(), p.device);
  second.run = [&kernel, g, channels = problem.geometry.out_channels](const bfloat16* between, std::int64_t first_row,
                                                                      std::byte* output, std::int64_t image,
                                                                      std::int64_t row, std::byte*) {
    pool_row(kernel, g, channels, between, first_row, output, image, row);
  };
  return prepare(problem, std::move(second), p);
}

}  // namespace lamina::cpu::bf16
