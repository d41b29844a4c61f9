#include "lamina/cpu/pool2d/channels.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/pool2d/window.h"

namespace lamina::cpu {
namespace {

// Elements that a task reads at least, and channels of a part of a pixel: a cache line of them at least.
constexpr std::int64_t chunk = 16384, least_part = 16, most_part = 256;

/// The pixels of the window of output [oh, ow], the largest of which is sought, a dilation apart.
void place_largest(const PoolGeometry& g, int oh, int ow, std::int64_t& top, std::int64_t& left, PixelWindow& w) {
  const std::int64_t corner_row = std::int64_t{oh} * g.stride_height - g.padding_height;
  const std::int64_t corner_column = std::int64_t{ow} * g.stride_width - g.padding_width;
  const InsideTaps rows(corner_row, g.in_height, g.kernel_height, g.dilation_height);
  const InsideTaps columns(corner_column, g.in_width, g.kernel_width, g.dilation_width);
  top = corner_row + rows.first * g.dilation_height, left = corner_column + columns.first * g.dilation_width;
  w.rows = rows.last - rows.first, w.columns = columns.last - columns.first;
}

void place_average(const PoolGeometry& g, int oh, int ow, std::int64_t& top, std::int64_t& left, PixelWindow& w) {
  const AverageWindow rows(oh, g.in_height, g.kernel_height, g.stride_height, g.padding_height);
  const AverageWindow columns(ow, g.in_width, g.kernel_width, g.stride_width, g.padding_width);
  top = rows.begin, left = columns.begin;
  w.rows = std::max<std::int64_t>(rows.end - rows.begin, 0);
  w.columns = std::max<std::int64_t>(columns.end - columns.begin, 0);
  w.divisor = w.rows * w.columns == 0 ? 1.0f : static_cast<float>(cells(g, rows, columns));
}

void place_covering(const PoolGeometry& g, int oh, int ow, std::int64_t& top, std::int64_t& left, PixelWindow& w) {
  const auto [first, last] = covering(oh, g.in_height, g.out_height);
  const auto [begin, end] = covering(ow, g.in_width, g.out_width);
  top = first, left = begin;
  w.rows = last - first, w.columns = end - begin;
  w.divisor = static_cast<float>(w.rows * w.columns);
}

/// A pixel's channels to planes of `plane` elements.
template <class T>
void scatter(const T* pixel, std::int64_t channels, std::int64_t plane, T* output) {
  for (std::int64_t c = 0; c < channels; ++c) output[c * plane] = pixel[c];
}

}  // namespace

void channel_pool2d(PoolKind kind, const ChannelPoolKernel& kernel, const PoolGeometry& g,
                    const PooledChannels& pixels_of, DType dtype, const void* input, void* output, ThreadPool& pool) {
  const std::int64_t channels = pixels_of.count, input_pitch = pixels_of.input_pitch;
  const ChannelPoolKernel::Windows& windows = dtype == DType::bf16 ? kernel.bf16 : kernel.f32;
  const auto run = kind == PoolKind::largest ? windows.largest : windows.mean;
  const auto place = kind == PoolKind::largest   ? place_largest
                     : kind == PoolKind::average ? place_average
                                                 : place_covering;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  const bool dilated = kind == PoolKind::largest, to_planes = pixels_of.output_pitch == 0;
  const std::int64_t column = input_pitch * (dilated ? g.dilation_width : 1);
  const std::int64_t row = input_pitch * g.in_width * (dilated ? g.dilation_height : 1);

  // Output pixels in order, as many of them in a task as read a chunk; large windows are shared out by channels.
  const std::int64_t images = channels == 0 ? 0 : g.planes / channels;
  const std::int64_t pixels = images * g.out_pixels();
  const std::int64_t cost = std::max<std::int64_t>(
      channels * (kind == PoolKind::adaptive
                      ? detail::ceil_div(g.in_pixels(), std::max<std::int64_t>(g.out_pixels(), 1))
                      : std::int64_t{g.kernel_height} * g.kernel_width),
      1);
  const std::int64_t step = std::max<std::int64_t>(chunk / cost, 1);
  const std::int64_t part = std::clamp(detail::round_up<std::int64_t>(channels / 8, least_part), least_part, most_part);
  const std::int64_t parts = step > 1 ? 1 : std::max<std::int64_t>(detail::ceil_div(channels, part), 1);
  pool.parallel_for(detail::ceil_div(pixels, step) * parts, [&](std::int64_t task, int) {
    const std::int64_t channel = task % parts * part;
    const std::int64_t width = parts == 1 ? channels : std::min(part, channels - channel);
    const std::int64_t first = task / parts * step, last = std::min(pixels, first + step);
    for (std::int64_t pixel = first; pixel < last; ++pixel) {
      const std::int64_t image = pixel / g.out_pixels(), place_in_image = pixel % g.out_pixels();
      PixelWindow w = {.first = nullptr,
                       .rows = 0,
                       .columns = 0,
                       .row = row,
                       .column = column,
                       .channels = width,
                       .divisor = 1,
                       .output = out + (pixel * pixels_of.output_pitch + channel) * size};
      std::int64_t top = 0, left = 0;
      place(g, static_cast<int>(place_in_image / g.out_width), static_cast<int>(place_in_image % g.out_width), top,
            left, w);
      if (w.rows * w.columns == 0) w.rows = w.columns = 0, top = left = 0;
      w.first = in + (((image * g.in_height + top) * g.in_width + left) * input_pitch + channel) * size;
      if (!to_planes) {
        run(w);
        continue;
      }
      alignas(64) std::byte values[most_part * sizeof(float)];
      const auto* const from = static_cast<const std::byte*>(w.first);
      for (std::int64_t c = 0; c < width; c += most_part) {
        w.first = from + c * size;
        w.channels = std::min(most_part, width - c);
        w.output = values;
        run(w);
        std::byte* const to = out + ((image * channels + channel + c) * g.out_pixels() + place_in_image) * size;
        if (dtype == DType::bf16) {
          scatter(reinterpret_cast<const bfloat16*>(values), w.channels, g.out_pixels(),
                  reinterpret_cast<bfloat16*>(to));
        } else {
          scatter(reinterpret_cast<const float*>(values), w.channels, g.out_pixels(), reinterpret_cast<float*>(to));
        }
      }
    }
  });
}

}  // namespace lamina::cpu
