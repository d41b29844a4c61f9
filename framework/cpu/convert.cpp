#include "lamina/cpu/convert.h"

#include <algorithm>
#include <cstddef>

#include "lamina/base/math.h"
#include "lamina/cpu/array/blocks.h"

namespace lamina::cpu {
namespace {

// Of a tile that is turned in the L1 cache.
constexpr std::int64_t tile_channels = 32, tile_size = 2048;
constexpr std::int64_t chunk = block<float> * 8;

/// The same order in both.
void convert_in_place(std::int64_t count, DType from, const std::byte* input, DType to, std::byte* output,
                      ThreadPool& pool) {
  const auto in_size = static_cast<std::int64_t>(size_of(from)), out_size = static_cast<std::int64_t>(size_of(to));
  pool.parallel_for(detail::ceil_div(count, chunk), [=](std::int64_t task, int) {
    alignas(64) float values[static_cast<std::size_t>(block<float>)];
    const std::int64_t end = std::min(count, (task + 1) * chunk);
    for (std::int64_t i = task * chunk; i < end; i += block<float>) {
      const std::int64_t n = std::min(block<float>, end - i);
      load(from, input + i * in_size, values, n);
      store(to, values, output + i * out_size, n);
    }
  });
}

/// A matrix whose columns become rows, a tile at a time.
struct Turned {
  std::int64_t rows, columns;  // of the source
  DType from, to;
  const std::byte* input;
  std::byte* output;

  void tile(std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) const {
    alignas(64) float values[tile_size], turned[tile_size];
    for (std::int64_t r = 0; r < height; ++r) {
      const std::int64_t at = (row + r) * columns + column;
      load(from, input + at * static_cast<std::int64_t>(size_of(from)), values + r * width, width);
    }
    const bool direct = to == DType::f32;
    float* const target = direct ? reinterpret_cast<float*>(output) + column * rows + row : turned;
    const std::int64_t pitch = direct ? rows : height;
    for (std::int64_t c = 0; c < width; ++c) {
      for (std::int64_t r = 0; r < height; ++r) target[c * pitch + r] = values[r * width + c];
    }
    if (direct) return;
    const auto size = static_cast<std::int64_t>(size_of(to));
    if (height == rows) return store(to, turned, output + column * rows * size, width * height);
    for (std::int64_t c = 0; c < width; ++c) {
      store(to, turned + c * height, output + ((column + c) * rows + row) * size, height);
    }
  }
};

}  // namespace

void convert(const Activation& a, Format from, const void* input, Format to, void* output, ThreadPool& pool) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  if (a.size() == 0) return;
  if (from.layout == to.layout || a.channels == 1 || a.pixels == 1) {
    return convert_in_place(a.size(), from.dtype, in, to.dtype, out, pool);
  }
  // Rows are channels on one side and pixels on the other.
  const bool planes = from.layout == Layout::nchw;
  const std::int64_t rows = planes ? a.channels : a.pixels, columns = planes ? a.pixels : a.channels;
  if (from.dtype == to.dtype && size_of(to.dtype) == 1) return turn(a.images, rows, columns, in, out, pool);
  const std::int64_t channels = std::min(tile_channels, a.channels), pixels = tile_size / channels;
  const std::int64_t height = planes ? channels : pixels, width = planes ? pixels : channels;
  const std::int64_t down = detail::ceil_div(rows, height), across = detail::ceil_div(columns, width);
  pool.parallel_for(a.images * down * across, [=](std::int64_t task, int) {
    const std::int64_t image = task / (down * across) * rows * columns;
    const std::int64_t row = task / across % down * height, column = task % across * width;
    const Turned matrix = {.rows = rows,
                           .columns = columns,
                           .from = from.dtype,
                           .to = to.dtype,
                           .input = in + image * static_cast<std::int64_t>(size_of(from.dtype)),
                           .output = out + image * static_cast<std::int64_t>(size_of(to.dtype))};
    matrix.tile(row, std::min(height, rows - row), column, std::min(width, columns - column));
  });
}

}  // namespace lamina::cpu
