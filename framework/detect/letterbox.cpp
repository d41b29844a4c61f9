#include "lamina/detect/parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"

// The fixed-point arithmetic of OpenCV's resize (Apache 2.0): weights of 11 bits, 22 of a
// pixel after the horizontal pass, of which the vertical one takes what a 16-bit product keeps.
namespace lamina::detail {
namespace {

constexpr int one = 2048;
constexpr std::uint8_t grey = 114;  // what lies beside a letterboxed photograph

struct Tap {
  int first = 0;
  int weight = one, next = 0;  // of `first` and of the pixel after it
};

/// Taps of one axis, held to the picture or not.
std::vector<Tap> taps_of(int in, int out, bool held) {
  const double scale = 1 / (static_cast<double>(out) / in);
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  for (int i = 0; i < out; ++i) {
    const auto place = static_cast<float>((i + 0.5) * scale - 0.5);
    const float floor = std::floor(place), part = place - floor;
    Tap tap = {static_cast<int>(floor), static_cast<int>(std::lrintf((1 - part) * one)),
               static_cast<int>(std::lrintf(part * one))};
    if (held && (tap.first < 0 || tap.first >= in - 1)) tap = {std::clamp(tap.first, 0, in - 1), one, 0};
    taps[static_cast<std::size_t>(i)] = tap;
  }
  return taps;
}

}  // namespace

Letterbox::Letterbox(int photo_w, int photo_h, int w, int h, bool stretch, bool whole)
    : width(w), height(h), photo_width(photo_w), photo_height(photo_h), stretched(stretch) {
  inner_width = width, inner_height = height;
  const double gain = std::min(static_cast<double>(height) / photo_height, static_cast<double>(width) / photo_width);
  // As Python rounds: halves to the even neighbour.
  const auto inner = [&](int side) { return static_cast<int>(std::max(1LL, std::llrint(side * gain))); };
  if (!stretched) inner_width = inner(photo_width), inner_height = inner(photo_height);
  const auto before = [](int margin) { return static_cast<int>(std::lrint(margin / 2.0 - 0.1)); };
  left = before(width - inner_width), top = before(height - inner_height);
  gain_x = static_cast<float>(whole ? static_cast<double>(inner_width) / photo_width : gain);
  gain_y = static_cast<float>(whole ? static_cast<double>(inner_height) / photo_height : gain);
  zero_x = static_cast<float>(whole ? left : (width - photo_width * gain) / 2);
  zero_y = static_cast<float>(whole ? top : (height - photo_height * gain) / 2);
}

void Letterbox::draw(const ImageView& image, std::span<std::uint8_t> out, ThreadPool& threads) const {
  const auto row_bytes = static_cast<std::size_t>(inner_width) * 3, stride = static_cast<std::size_t>(width) * 3;
  const std::vector<Tap> columns = taps_of(photo_width, inner_width, true);
  const std::vector<Tap> rows = taps_of(photo_height, inner_height, false);
  constexpr int piece = 32;  // rows of the input
  threads.parallel_for(ceil_div(height, piece), [&](std::int64_t index, int) {
    const int first = static_cast<int>(index) * piece, last = std::min(height, first + piece);
    std::uint8_t* const begin = out.data() + static_cast<std::size_t>(first) * stride;
    std::fill_n(begin, static_cast<std::size_t>(last - first) * stride, grey);
    RowReader reader(image, 0, static_cast<std::size_t>(photo_width));
    std::array<std::vector<std::int32_t>, 2> lines;  // of neighbouring rows one in each
    std::array<int, 2> held{-1, -1};
    const auto line_of = [&](int row) {
      row = std::clamp(row, 0, photo_height - 1);
      const auto at = static_cast<std::size_t>(row % 2);
      lines[at].resize(row_bytes);
      std::int32_t* value = lines[at].data();
      if (std::exchange(held[at], row) == row) return value;
      const std::uint8_t* pixels = reader.row(static_cast<std::size_t>(row));
      for (const Tap& tap : columns) {
        const std::uint8_t* pixel = pixels + std::ptrdiff_t{tap.first} * 3;
        const std::uint8_t* next = tap.next == 0 ? pixel : pixel + 3;
        for (int c = 0; c < 3; ++c) *value++ = pixel[c] * tap.weight + next[c] * tap.next;
      }
      return lines[at].data();
    };
    for (int y = std::max(first, top); y < std::min(last, top + inner_height); ++y) {
      std::uint8_t* const row =
          begin + static_cast<std::size_t>(y - first) * stride + static_cast<std::size_t>(left) * 3;
      if (inner_width == photo_width && inner_height == photo_height) {  // the same bits
        std::copy_n(reader.row(static_cast<std::size_t>(y - top)), row_bytes, row);
        continue;
      }
      const Tap& tap = rows[static_cast<std::size_t>(y - top)];
      const std::int32_t* upper = line_of(tap.first);
      const std::int32_t* lower = line_of(tap.first + 1);
      for (std::size_t x = 0; x < row_bytes; ++x) {
        const int sum = ((tap.weight * (upper[x] >> 4)) >> 16) + ((tap.next * (lower[x] >> 4)) >> 16);
        row[x] = static_cast<std::uint8_t>((sum + 2) >> 2);
      }
    }
  });
}

}  // namespace lamina::detail
