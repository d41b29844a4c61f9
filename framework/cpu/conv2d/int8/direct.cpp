// The plain loops, to be read.

#include <algorithm>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/codes.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu::int8 {
namespace {

/// (x - x_zero) (w - w_zero) of one output, summed. `image` is nhwc.
template <class T>
std::int32_t sum_of(const ConvProblem& problem, const T* image, std::int64_t pitch, std::int32_t x_zero, int channel,
                    int row, int column) {
  const ConvGeometry& g = problem.geometry;
  const EightBitWeights& eight = problem.eight;
  const std::int32_t w_zero =
      eight.zero_point.defined() ? eight.zero_point.values<std::int32_t>()[static_cast<std::size_t>(channel)] : 0;
  const auto* const weight = static_cast<const std::int8_t*>(eight.weight.raw()) + channel * g.reduction();
  const int first = channel / g.group_out_channels() * g.group_in_channels();
  std::int32_t sum = 0;
  for (int kh = 0; kh < g.kernel_height; ++kh) {
    for (int kw = 0; kw < g.kernel_width; ++kw) {
      const std::int64_t y = std::int64_t{row} * g.stride_height - g.padding_height + kh * g.dilation_height;
      const std::int64_t x = std::int64_t{column} * g.stride_width - g.padding_width + kw * g.dilation_width;
      if (y < 0 || y >= g.in_height || x < 0 || x >= g.in_width) continue;
      const T* const pixel = image + (y * g.in_width + x) * pitch + first;
      for (int c = 0; c < g.group_in_channels(); ++c) {
        const std::int32_t w = weight[(c * g.kernel_height + kh) * g.kernel_width + kw];
        sum += (pixel[c] - x_zero) * (w - w_zero);
      }
    }
  }
  return sum;
}

template <class T>
void convolve(const ConvProblem& problem, const detail::ChannelEnd& end, const View& input, const View& output,
              const Tensor& x, Tensor& y, const CodesKernel& kernel, ThreadPool& pool) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t pitch = input.pixel_pitch(), out_pitch = output.pixel_pitch();
  constexpr int at_once = 64;
  pool.parallel_for(g.batch * g.out_height, [&](std::int64_t task, int) {
    const std::int64_t image = task / g.out_height;
    const auto row = static_cast<int>(task % g.out_height);
    const T* const from = static_cast<const T*>(x.raw()) + image * g.in_pixels() * pitch;
    for (int column = 0; column < g.out_width; ++column) {
      const std::int64_t place = (task * g.out_width + column) * out_pitch;
      for (int first = 0; first < g.out_channels; first += at_once) {
        const int count = std::min(at_once, g.out_channels - first);
        alignas(64) std::int32_t sums[at_once] = {}, bias[at_once] = {};
        alignas(64) float factor[at_once] = {}, float_bias[at_once] = {};
        for (int c = 0; c < count; ++c) {
          sums[c] = sum_of(problem, from, pitch, input.quantization.zero_point, first + c, row, column);
        }
        std::copy_n(end.bias.begin() + first, count, bias);
        std::copy_n(end.factor.begin() + first, count, factor);
        std::copy_n(end.float_bias.begin() + first, count, float_bias);
        if (output.format.dtype == DType::i32 && !detail::is_channels_last(output)) {  // which are the sums
          auto* const to = static_cast<std::int32_t*>(y.raw()) + image * g.out_channels * g.out_pixels();
          for (int c = 0; c < count; ++c) {
            to[(first + c) * g.out_pixels() + std::int64_t{row} * g.out_width + column] = sums[c] + bias[c];
          }
          continue;
        }
        kernel.finish(end.end, {.sums = sums,
                                .row = at_once,
                                .offset = bias,
                                .factor = factor,
                                .bias = float_bias,
                                .output = static_cast<std::byte*>(y.raw()) +
                                          (place + first) * static_cast<std::int64_t>(size_of(y.dtype())),
                                .pixel = out_pitch,
                                .count = 1,
                                .channels = count});
      }
    }
  });
}

}  // namespace

bool takes_direct(const ConvProblem& problem, const Preparation& p) {
  return detail::is_eight_bits(problem, p) && detail::is_channels_last(p.input()) &&
         (problem.eight.whole || detail::is_channels_last(p.output()));
}

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& p) {
  return detail::make_operator(
      "int8_direct: plain loops, exact sums",
      [problem, end = detail::channel_end(problem, p), input = p.input(), output = p.output(),
       kernel = best_kernel(codes_kernels(), p.device)](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                        const Execution& execution) {
        const auto run = input.format.dtype == DType::u8 ? convolve<std::uint8_t> : convolve<std::int8_t>;
        run(problem, end, input, output, inputs[0], outputs[0], kernel, *execution.pool);
      });
}

}  // namespace lamina::cpu::int8
