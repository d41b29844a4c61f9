// The definition, one thread per output of a pixel, neighbours along the channels: four products of bytes at a time
// (dp4a), of neighbouring channels of a group.
//
// Shared memory: none. Preconditions: is_eight_bits; images channels last; fewer than 2^31 outputs in a launch. The
// load units are the limit.

#include <algorithm>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/eight_bits.h"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::eight_bits {
namespace {

constexpr int threads = 256;

struct Task {
  ConvGeometry g;
  Ends ends;
  const std::uint8_t* input;
  const std::uint32_t* weight;  // [tap, channels / 4, OC] fours of channels
  const std::int32_t* zeros;    // [OC], weights' zero points, or null
  void* output;
  std::int64_t pitch, out_pitch;  // from pixel to pixel
  std::uint32_t padding;          // four times the input's zero point
  int zero;
  bool planes;  // the output is nchw
  Divider by_channels, by_width, by_height, by_filters;
};

struct Place {
  std::uint32_t channel;
  int image, top, left;
  std::int64_t pixel;  // of the output

  __device__ Place(const Task& t, std::uint32_t index) {
    const std::uint32_t at = t.by_channels.quotient(index), row = t.by_width.quotient(at);
    channel = index - at * static_cast<unsigned>(t.g.out_channels);
    image = static_cast<int>(t.by_height.quotient(row));
    top = (static_cast<int>(row) - image * t.g.out_height) * t.g.stride_height - t.g.padding_height;
    left = static_cast<int>(at - row * static_cast<unsigned>(t.g.out_width)) * t.g.stride_width - t.g.padding_width;
    pixel = at;
  }
  /// A tap's pixel; null outside of the image.
  __device__ const std::uint8_t* tap(const Task& t, int kh, int kw) const {
    const int y = top + kh * t.g.dilation_height, x = left + kw * t.g.dilation_width;
    if (y < 0 || y >= t.g.in_height || x < 0 || x >= t.g.in_width) return nullptr;
    return t.input + ((static_cast<std::int64_t>(image) * t.g.in_height + y) * t.g.in_width + x) * t.pitch;
  }
};

/// `whole`: fours of channels lie aligned, and no group ends within one.
template <class T, bool whole>
__global__ void __launch_bounds__(threads) direct_kernel(const __grid_constant__ Task t, std::uint32_t count) {
  let_successor_start();
  wait_for_predecessor();
  const ConvGeometry& g = t.g;
  const int channels = g.in_channels / g.groups;
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) {
    const Place place(t, i);
    const std::uint32_t first = t.by_filters.quotient(place.channel) * static_cast<unsigned>(channels);
    const std::uint32_t* weight = t.weight + place.channel;
    int sum = 0, codes = 0;
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      for (int kw = 0; kw < g.kernel_width; ++kw) {
        const std::uint8_t* x = place.tap(t, kh, kw);
        for (int c = 0; c < channels; c += 4, weight += g.out_channels) {
          std::uint32_t four = t.padding;
          if (x != nullptr && whole) four = *reinterpret_cast<const std::uint32_t*>(x + first + c);
          if (x != nullptr && !whole) {
            four = 0;
            for (int j = 0; j < 4 && c + j < channels; ++j) four |= std::uint32_t{x[first + c + j]} << 8 * j;
          } else if (!whole && c + 4 > channels) {
            four &= 0xffffffffu >> 8 * (c + 4 - channels);
          }
          sum = ptx::dot_four<T>(four, __ldg(weight), sum);
          if (t.zeros != nullptr) codes = ptx::dot_four<T>(four, 0x01010101u, codes);
        }
      }
    }
    const auto channel = static_cast<int>(place.channel);
    if (t.zeros != nullptr) sum -= t.zeros[channel] * (codes - t.zero * channels * g.kernel_height * g.kernel_width);
    const std::int64_t plane = std::int64_t{g.out_height} * g.out_width;
    const std::int64_t index =
        t.planes ? (std::int64_t{place.image} * g.out_channels + channel) * plane + place.pixel - place.image * plane
                 : place.pixel * t.out_pitch + channel;
    put<1>(t.ends.end, {sum + __ldg(t.ends.offset + channel)}, {__ldg(t.ends.factor + channel)},
           {__ldg(t.ends.bias + channel)}, t.output, index);
  }
}

/// Weights [OC, C, taps] as fours of channels of a tap, zeros behind the last.
std::vector<std::uint32_t> pack(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int taps = g.kernel_height * g.kernel_width, channels = g.group_in_channels();
  const int fours = detail::ceil_div(channels, 4) * taps;
  std::vector<std::uint32_t> packed(static_cast<std::size_t>(fours) * static_cast<std::size_t>(g.out_channels));
  const auto weight = problem.eight.weight.values<std::int8_t>();
  std::size_t from = 0;
  for (int filter = 0; filter < g.out_channels; ++filter) {
    for (int c = 0; c < channels; ++c) {
      for (int tap = 0; tap < taps; ++tap) {
        const int place = tap * detail::ceil_div(channels, 4) + c / 4, byte = c % 4;
        packed[static_cast<std::size_t>(place) * static_cast<std::size_t>(g.out_channels) +
               static_cast<std::size_t>(filter)] |= std::uint32_t{static_cast<std::uint8_t>(weight[from++])}
                                                    << 8 * byte;
      }
    }
  }
  return packed;
}

}  // namespace

bool takes_direct(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return detail::is_eight_bits(problem, p) && detail::is_channels_last(p.input()) &&
         (problem.eight.whole || detail::is_channels_last(p.output())) &&
         g.out_channels * g.out_pixels() < std::int64_t{1} << 30;
}

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const int device = p.device.device.index;
  const std::vector<std::uint32_t> packed = pack(problem);
  Constants constants(device);
  std::vector<std::int32_t> zeros;
  if (problem.eight.zero_point.defined()) {
    const auto values = problem.eight.zero_point.values<std::int32_t>();
    zeros.assign(values.begin(), values.end());
  }
  const View& input = p.input();
  const bool is_u8 = input.format.dtype == DType::u8;
  const bool whole = g.group_in_channels() % 4 == 0 && input.pixel_pitch() % 4 == 0 && input.alignment % 4 == 0;
  const Task task = {
      .g = g,
      .ends = ends_of(detail::channel_end(problem, p, input.quantization.zero_point), g.out_channels, constants),
      .input = nullptr,
      .weight = constants.add(packed),
      .zeros = zeros.empty() ? nullptr : constants.add(zeros),
      .output = nullptr,
      .pitch = input.pixel_pitch(),
      .out_pitch = p.output().pixel_pitch(),
      .padding = static_cast<std::uint8_t>(input.quantization.zero_point) * 0x01010101u,
      .zero = input.quantization.zero_point,
      .planes = !detail::is_channels_last(p.output()),
      .by_channels = Divider(g.out_channels),
      .by_width = Divider(g.out_width),
      .by_height = Divider(g.out_height),
      .by_filters = Divider(g.group_out_channels())};
  const auto kernel = whole ? (is_u8 ? direct_kernel<std::uint8_t, true> : direct_kernel<std::int8_t, true>)
                            : (is_u8 ? direct_kernel<std::uint8_t, false> : direct_kernel<std::int8_t, false>);
  return detail::make_operator("int8_direct: plain loops, exact sums", [=](std::span<const Tensor> inputs,
                                                                           std::span<Tensor> outputs,
                                                                           const Execution& execution) {
    const DeviceGuard guard(device);
    (void)constants;  // whose memory the task has
    const std::int64_t image = g.out_channels * g.out_pixels();
    const std::int64_t at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 30) / std::max<std::int64_t>(1, image));
    for (std::int64_t first = 0; first < g.batch && image > 0; first += at_once) {
      Task part = task;
      part.input = static_cast<const std::uint8_t*>(inputs[0].raw()) + first * g.in_pixels() * task.pitch;
      part.output = static_cast<std::byte*>(outputs[0].raw()) +
                    first * (task.planes ? g.out_channels : task.out_pitch) * g.out_pixels() *
                        static_cast<std::int64_t>(size_of(outputs[0].dtype()));
      const std::int64_t count = std::min(at_once, g.batch - first) * image;
      launch_kernel(kernel, {.grid = dim3(grid_for(count, threads)), .block = dim3(threads)}, execution.stream, part,
                    static_cast<std::uint32_t>(count));
    }
  });
}

}  // namespace lamina::cuda::eight_bits
