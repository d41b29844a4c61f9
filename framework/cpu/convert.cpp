#include "lamina/cpu/convert.h"

#include <algorithm>
#include <cstddef>

#include "lamina/base/math.h"
#include "lamina/cpu/array/blocks.h"

namespace lamina::cpu {
namespace {

// Of a tile that is turned in the L1 cache.
constexpr std::int64_t tile_channels = 32, tile_pixels = 64;
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

/// Rows of `count` elements, `pitch` elements apart in memory.
template <class Memory>
struct Rows {
  Memory* memory;
  DType dtype;
  std::int64_t pitch;
  Memory* at(std::int64_t row, std::int64_t element) const {
    return memory + (row * pitch + element) * static_cast<std::int64_t>(size_of(dtype));
  }
};

}  // namespace

void convert(const Activation& a, Format from, const void* input, Format to, void* output, ThreadPool& pool) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  if (from.layout == to.layout || a.channels == 1 || a.pixels == 1) {
    return convert_in_place(a.size(), from.dtype, in, to.dtype, out, pool);
  }
  // Rows are channels on one side and pixels on the other.
  const bool planes = from.layout == Layout::nchw;
  const std::int64_t rows = planes ? a.channels : a.pixels, columns = planes ? a.pixels : a.channels;
  const std::int64_t tile_rows = planes ? tile_channels : tile_pixels,
                     tile_columns = planes ? tile_pixels : tile_channels;
  const std::int64_t down = detail::ceil_div(rows, tile_rows), across = detail::ceil_div(columns, tile_columns);
  pool.parallel_for(a.images * down * across, [=](std::int64_t task, int) {
    alignas(64) float tile[tile_channels * tile_pixels], turned[tile_channels * tile_pixels];
    const std::int64_t image = task / (down * across);
    const std::int64_t row = task / across % down * tile_rows, column = task % across * tile_columns;
    const std::int64_t height = std::min(tile_rows, rows - row), width = std::min(tile_columns, columns - column);
    const Rows<const std::byte> source = {in, from.dtype, columns};
    const Rows<std::byte> target = {out, to.dtype, rows};
    for (std::int64_t r = 0; r < height; ++r) {
      load(from.dtype, source.at(image * rows + row + r, column), tile + r * width, width);
    }
    for (std::int64_t c = 0; c < width; ++c) {
      for (std::int64_t r = 0; r < height; ++r) turned[c * height + r] = tile[r * width + c];
      store(to.dtype, turned + c * height, target.at(image * columns + column + c, row), height);
    }
  });
}

}  // namespace lamina::cpu
