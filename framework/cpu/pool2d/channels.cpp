#include "lamina/cpu/pool2d/channels.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/cpu/pool2d/window.h"

namespace lamina::cpu {
namespace {

// Elements that a task reads at least, and channels of a part of a pixel: a cache line of them at least.
constexpr std::int64_t chunk = 16384, least_part = 16, max_part = 256;
// An image that the layer before has left in the caches: to fetch from it takes longer than it saves.
constexpr std::int64_t cached_bytes = 4 << 20;

/// A pixel's channels to planes of `plane` elements.
template <class T>
void scatter(const T* pixel, std::int64_t channels, std::int64_t plane, T* output) {
  for (std::int64_t c = 0; c < channels; ++c) output[c * plane] = pixel[c];
}

/// ((sum - n zero_point) scale) / cells, in f32.
void mean(ChannelPoolKernel::Window sum, PixelWindow w, const PooledCodes& codes) {
  alignas(64) float values[max_part];
  const auto zeros = static_cast<float>(w.rows * w.columns * codes.from.zero_point);
  const auto* from = static_cast<const std::byte*>(w.first);
  auto* to = static_cast<std::byte*>(w.output);
  for (std::int64_t c = 0, channels = w.channels; c < channels; c += max_part) {
    w.first = from + c, w.output = values;
    w.channels = std::min(max_part, channels - c);
    sum(w);
    for (std::int64_t i = 0; i < w.channels; ++i) values[i] = (values[i] - zeros) * codes.from.scale / w.divisor;
    std::byte* const target = to + c * static_cast<std::int64_t>(size_of(codes.type));
    if (codes.to.defined()) {
      codes.kernel->write(codes.type, values, codes.to, target, w.channels);
    } else {
      std::memcpy(target, values, static_cast<std::size_t>(w.channels) * sizeof(float));
    }
  }
}

}  // namespace

void channel_pool2d(PoolKind kind, const ChannelPoolKernel& kernel, const PoolGeometry& g,
                    const PooledChannels& pixels_of, DType dtype, const void* input, void* output, ThreadPool& pool,
                    const PooledCodes& codes) {
  const std::int64_t channels = pixels_of.count, input_pitch = pixels_of.input_pitch;
  const ChannelPoolKernel::Windows& windows = dtype == DType::bf16 ? kernel.bf16
                                              : dtype == DType::u8 ? kernel.u8
                                              : dtype == DType::i8 ? kernel.i8
                                                                   : kernel.f32;
  const auto run = kind == PoolKind::largest ? windows.largest : windows.mean;
  const auto place = placing(kind);
  const Side vertical = rows_of(g), horizontal = columns_of(g);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  const bool dilated = kind == PoolKind::largest, to_planes = pixels_of.output_pitch == 0;
  const bool mean_of_codes = codes.kernel != nullptr && kind != PoolKind::largest;
  const auto out_size = mean_of_codes ? static_cast<std::int64_t>(size_of(codes.type)) : size;
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
  // Of the rows that the next row of windows adds, each window fetches what lies below it: the processor follows a row,
  // but does not foresee where the next begins.
  const bool in_cache = images * g.in_pixels() * input_pitch * size <= cached_bytes;
  const std::int64_t fetched = in_cache ? 0 : g.stride_width * input_pitch * size;
  const std::int64_t step = std::max<std::int64_t>(chunk / cost, 1);
  const std::int64_t part = std::clamp(detail::round_up<std::int64_t>(channels / 8, least_part), least_part, max_part);
  const std::int64_t parts = step > 1 ? 1 : std::max<std::int64_t>(detail::ceil_div(channels, part), 1);
  pool.parallel_for(detail::ceil_div(pixels, step) * parts, [&](std::int64_t task, int) {
    const std::int64_t channel = task % parts * part;
    const std::int64_t width = parts == 1 ? channels : std::min(part, channels - channel);
    const std::int64_t first = task / parts * step, last = std::min(pixels, first + step);
    // Counted on, since a division takes as long as the window of a pixel of few channels.
    std::int64_t image = first / g.out_pixels(), place_in_image = first % g.out_pixels();
    int oh = static_cast<int>(place_in_image / g.out_width), ow = static_cast<int>(place_in_image % g.out_width);
    Covered rows = place(vertical, oh);
    for (std::int64_t pixel = first; pixel < last; ++pixel, ++ow, ++place_in_image) {
      if (ow == g.out_width) {
        ow = 0;
        if (++oh == g.out_height) oh = 0, ++image, place_in_image = 0;
        rows = place(vertical, oh);
      }
      const Covered columns = place(horizontal, ow);
      const bool any = rows.count * columns.count > 0;
      PixelWindow w = {.first = in,
                       .rows = any ? rows.count : 0,
                       .columns = any ? columns.count : 0,
                       .row = row,
                       .column = column,
                       .channels = width,
                       .divisor = any ? static_cast<float>(rows.cells * columns.cells) : 1.0f,
                       .output = out + (pixel * pixels_of.output_pitch + channel) * out_size};
      if (any) {
        const std::int64_t corner = (image * g.in_height + rows.begin) * g.in_width + columns.begin;
        w.first = in + (corner * input_pitch + channel) * size;
        const auto* next = static_cast<const std::byte*>(w.first) + rows.count * row * size;
        for (int r = 0; r < g.stride_height; ++r, next += row * size) {
          for (std::int64_t byte = 0; byte < fetched; byte += 64) __builtin_prefetch(next + byte, 0, 2);
        }
      }
      if (mean_of_codes) {
        mean(run, w, codes);
        continue;
      }
      if (!to_planes) {
        run(w);
        continue;
      }
      alignas(64) std::byte values[max_part * sizeof(float)];
      const auto* const from = static_cast<const std::byte*>(w.first);
      for (std::int64_t c = 0; c < width; c += max_part) {
        w.first = from + c * size;
        w.channels = std::min(max_part, width - c);
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
