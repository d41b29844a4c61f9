#include "lamina/cpu/conv2d/pair.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/conv2d/bf16/kernels.h"
#include "lamina/cpu/conv2d/channels_last.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "lamina/cpu/pool2d/channels.h"
#include "lamina/cpu/pool2d/window.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cpu {
namespace {

using bf16::Engine;
using detail::ceil_div;

constexpr Format narrow = {DType::bf16, Layout::nhwc};

/// Pixels that a tile of positions reads even if it has fewer.
constexpr int least_width = 16;

View output_of(const ConvGeometry& g, DType type) {
  return {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}, .format = {type, Layout::nhwc}};
}

/// What comes first, by rows of its outputs.
struct Leader {
  ConvGeometry geometry;
  std::size_t workspace = 0;  // of a thread
  std::string description = {};
  /// Rows [first, first + count) of an image, to `between`.
  std::function<void(const Tensor& input, std::int64_t image, std::int64_t first, std::int64_t count,
                     std::byte* between, std::byte* workspace)>
      run = {};
};

/// What follows, by rows of its outputs.
struct Follower {
  std::int64_t out_height = 0;
  int kernel = 1, stride = 1, padding = 0, dilation = 1;  // vertical
  std::size_t workspace = 0;                              // of a thread
  std::string description = {};
  /// One row of an image. `between` begins with row `first_row` of all images' rows.
  std::function<void(const std::byte* between, std::int64_t first_row, std::byte* output, std::int64_t image,
                     std::int64_t row, std::byte* workspace)>
      run = {};

  std::int64_t reach() const { return std::int64_t{kernel - 1} * dilation + 1; }
};

/// How many bands an image is cut into, and the most rows of what lies between that one needs: what so many bytes hold,
/// and as many bands as threads share out evenly.
struct Bands {
  std::int64_t count, rows, row_bytes;

  Bands(const ConvGeometry& g, const Follower& second, DType type, std::int64_t bytes, int threads)
      : row_bytes(std::int64_t{g.out_width} * g.out_channels * static_cast<std::int64_t>(size_of(type))) {
    const std::int64_t most = bytes / row_bytes;
    const std::int64_t tall = std::max<std::int64_t>(1, (most - second.reach()) / second.stride + 1);
    count = ceil_div<std::int64_t>(second.out_height, tall);
    while (count < second.out_height && g.batch * count % threads != 0) ++count;
    const std::int64_t outputs = ceil_div<std::int64_t>(second.out_height, count);
    rows = std::min<std::int64_t>(g.out_height, (outputs - 1) * second.stride + second.reach());
  }
};

struct Pair {
  ConvGeometry g;  // of the first
  Leader first;
  Follower second;
  Bands bands;

  std::size_t rows_bytes() const {
    return static_cast<std::size_t>(detail::round_up<std::int64_t>(bands.rows * bands.row_bytes, 64));
  }
  std::size_t workspace_bytes() const { return rows_bytes() + first.workspace + second.workspace; }  // of a thread

  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    execution.pool->parallel_for(g.batch * bands.count, [&](std::int64_t index, int worker) {
      std::byte* const between =
          static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * workspace_bytes();
      std::byte* const own = between + rows_bytes();
      const std::int64_t image = index / bands.count, band = index % bands.count;
      const std::int64_t from = second.out_height * band / bands.count,
                         to = second.out_height * (band + 1) / bands.count;
      const std::int64_t begin = std::clamp<std::int64_t>(from * second.stride - second.padding, 0, g.out_height);
      const std::int64_t end =
          std::clamp<std::int64_t>((to - 1) * second.stride - second.padding + second.reach(), begin, g.out_height);
      if (end > begin) first.run(inputs[0], image, begin, end - begin, between, own);
      for (std::int64_t row = from; row < to; ++row) {
        second.run(between, image * g.out_height + begin, static_cast<std::byte*>(outputs[0].raw()), image, row,
                   own + first.workspace);
      }
    });
  }
};

std::unique_ptr<Operator> make_pair(Leader first, Follower second, const Bands& bands, const Preparation& p) {
  Pair pair = {first.geometry, std::move(first), std::move(second), bands};
  const std::string description =
      detail::concat(pair.first.description, ", then ", pair.second.description, ", ", bands.rows, " rows at a time");
  const detail::OperatorTraits memory = {.workspace = pair.workspace_bytes() * static_cast<std::size_t>(p.threads)};
  return detail::make_operator(description, memory, std::move(pair));
}

/// Whether there is an engine for the convolution.
bool begins_bf16_pair(const ConvProblem& first, const Preparation& p) {
  const ConvGeometry& g = first.geometry;
  if (p.inputs.size() != 1 || g.groups != 1 || g.out_width < least_width) return false;
  if (p.output().is_slice() || p.output().format != narrow) return false;
  const View between = output_of(g, DType::bf16);
  Preparation alone = p;
  alone.outputs = {&between, 1};
  return bf16::takes(bf16::best_engine(p.device).unit, first, alone);
}

std::unique_ptr<Operator> prepare_bf16_pair(const ConvProblem& problem, Follower second, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const Engine& engine = bf16::best_engine(p.device);
  const Bands bands(g, second, DType::bf16, engine.cache / 4, p.threads);
  const bf16::Layer layer(g, engine, p.input().format, 1, false,
                          static_cast<int>(bands.rows * (detail::is_of_pixels(g) ? g.out_width : 1)));
  Leader first = {.geometry = g,
                  .workspace = layer.workspace(1),
                  .description = detail::concat("bf16: ", engine.what, ", ", engine.positions, " pixels x ",
                                                engine.filters, " filters")};
  first.run = [layer, packed = bf16::packed(layer, problem.weight, problem.bias),
               epilogue = row_epilogue({.chain = problem.epilogue.chain}, p.device),
               pitch = p.input().channels](const Tensor& input, std::int64_t image, std::int64_t begin,
                                           std::int64_t count, std::byte* between, std::byte* workspace) {
    bf16::convolve_rows(layer,
                        {.input = input.raw(),
                         .weight = static_cast<const std::uint16_t*>(packed.weight.raw()),
                         .bias = detail::floats(packed.bias),
                         .output = between,
                         .input_pitch = pitch},
                        epilogue, image, begin, count, workspace);
  };
  return make_pair(std::move(first), std::move(second), bands, p);
}

bool begins_f32_pair(const ConvProblem& first, const Preparation& p) {
  const ConvGeometry& g = first.geometry;
  constexpr Format format = {DType::f32, Layout::nhwc};
  return p.inputs.size() == 1 && p.precision == Precision::fp32 && detail::is_of_pixels(g) && g.groups == 1 &&
         p.input().format == format && p.output().format == format && !p.output().is_slice() &&
         g.batch * g.out_pixels() <= std::numeric_limits<int>::max();
}

std::unique_ptr<Operator> prepare_f32_pair(const ConvProblem& problem, Follower second, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const Bands bands(g, second, DType::f32, bf16::best_engine(p.device, DType::f32).cache / 2, p.threads);
  const ChannelsLastKernel& kernel = best_kernel(channels_last_kernels(), p.device);
  const ChannelsLastConv conv(g, kernel, 1);
  Leader first = {
      .geometry = g, .workspace = conv.pixels_workspace(bands.rows * g.out_width), .description = conv.description()};
  first.run = [conv, packed = conv.packed(problem.weight, problem.bias),
               epilogue = row_epilogue(problem.epilogue, p.device), g,
               pitch = p.input().pixel_pitch()](const Tensor& input, std::int64_t image, std::int64_t begin,
                                                std::int64_t count, std::byte* between, std::byte* workspace) {
    const std::int64_t pixel = (image * g.out_height + begin) * g.out_width;
    conv.run_pixels({.input = detail::floats(input),
                     .packed = detail::floats(packed),
                     .output = reinterpret_cast<float*>(between),
                     .input_pitch = pitch},
                    epilogue, pixel, pixel + count * g.out_width, reinterpret_cast<float*>(workspace));
  };
  return make_pair(std::move(first), std::move(second), bands, p);
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

bool takes_pair(DType type, const ConvPairProblem& problem, const Preparation& p) {
  const bool begins = type == DType::bf16 ? begins_bf16_pair(problem.first, p) : begins_f32_pair(problem.first, p);
  const View between = output_of(problem.first.geometry, type);
  Preparation behind = p;
  behind.inputs = {&between, 1};
  return begins && takes_lanes(type, problem.second, behind);
}

std::unique_ptr<Operator> prepare_pair(DType type, const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.second.geometry;
  Follower second = {.out_height = g.out_height,
                     .kernel = g.kernel_height,
                     .stride = g.stride_height,
                     .padding = g.padding_height,
                     .dilation = g.dilation_height};
  const View map = output_of(problem.first.geometry, type);
  Preparation behind = p;
  behind.inputs = {&map, 1};
  const auto lanes = std::make_shared<const LanesConv>(problem.second, type, behind);
  second.workspace = lanes->workspace_bytes();
  second.description = lanes->description();
  second.run = [lanes](const std::byte* between, std::int64_t first_row, std::byte* output, std::int64_t image,
                       std::int64_t row, std::byte* workspace) {
    lanes->run_row({.input = between, .first_row = first_row, .near = true, .output = output}, image, row, workspace);
  };
  return type == DType::bf16 ? prepare_bf16_pair(problem.first, std::move(second), p)
                             : prepare_f32_pair(problem.first, std::move(second), p);
}

bool takes_pooled(const ConvProblem& problem, const Preparation& p) {
  if (!problem.epilogue.pool) return false;
  ConvProblem first = problem;
  first.epilogue.pool.reset();
  return begins_bf16_pair(first, p);
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
  second.run = [&kernel, g, channels = problem.geometry.out_channels](const std::byte* between, std::int64_t first_row,
                                                                      std::byte* output, std::int64_t image,
                                                                      std::int64_t row, std::byte*) {
    pool_row(kernel, g, channels, reinterpret_cast<const bfloat16*>(between), first_row, output, image, row);
  };
  return prepare_bf16_pair(problem, std::move(second), p);
}

}  // namespace lamina::cpu
