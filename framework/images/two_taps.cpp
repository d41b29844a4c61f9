#include "lamina/images/two_taps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

// The fixed-point arithmetic of OpenCV's resize (Apache 2.0): weights of 11 bits, 22 of a
// pixel after the horizontal pass, of which the vertical one takes what a 16-bit product keeps.
namespace lamina::detail {
namespace {

constexpr int one = 2048;

/// Two rows, mixed in 16 bits. What is given by value stays in registers, whatever `out` may lie over.
void mix(const std::int16_t* upper, const std::int16_t* lower, int weight, int next, std::uint8_t* out,
         std::size_t count) {
  const auto first = static_cast<std::int16_t>(weight), second = static_cast<std::int16_t>(next);
  for (std::size_t i = 0; i < count; ++i) {
    const auto above = static_cast<std::int16_t>((first * upper[i]) >> 16);
    const auto below = static_cast<std::int16_t>((second * lower[i]) >> 16);
    out[i] = static_cast<std::uint8_t>(static_cast<std::uint16_t>(above + below + 2) >> 2);
  }
}

}  // namespace

TwoTaps::TwoTaps(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region)
    : image_(image),
      region_(region),
      copy_(width == image.width && height == image.height),
      columns_(taps_of(image.width, width, region.left, region.width, true)),
      rows_(taps_of(image.height, height, region.top, region.height, false)) {}

/// Taps of one axis, held to the picture or not.
std::vector<TwoTaps::Tap> TwoTaps::taps_of(int in, std::int64_t out, std::int64_t begin, int count, bool held) {
  const double scale = 1 / (static_cast<double>(out) / in);
  std::vector<Tap> taps(static_cast<std::size_t>(count));
  for (Tap& tap : taps) {
    const auto place = static_cast<float>((static_cast<double>(begin++) + 0.5) * scale - 0.5);
    const float floor = std::floor(place), part = place - floor;
    tap = {static_cast<int>(floor), static_cast<int>(std::lrintf((1 - part) * one)),
           static_cast<int>(std::lrintf(part * one))};
    if (held && (tap.first < 0 || tap.first >= in - 1)) tap = {std::clamp(tap.first, 0, in - 1), one, 0};
  }
  return taps;
}

void TwoTaps::draw(int first, int last, std::uint8_t* out, std::size_t stride) const {
  const std::size_t row_bytes = columns_.size() * 3;
  RowReader reader(image_, 0, static_cast<std::size_t>(image_.width));
  std::array<std::vector<std::int16_t>, 2> lines;  // of neighbouring rows one in each
  lines.fill(std::vector<std::int16_t>(row_bytes));
  std::array<int, 2> held{-1, -1};
  // Of a row of the picture the pixels that are wanted, times 2048, of which the last four bits are dropped.
  const auto line_of = [&](int row) {
    row = std::clamp(row, 0, image_.height - 1);
    const auto at = static_cast<std::size_t>(row % 2);
    std::int16_t* to = lines[at].data();
    if (std::exchange(held[at], row) == row) return to;
    const std::uint8_t* const pixels = reader.row(static_cast<std::size_t>(row));
    for (const Tap& tap : columns_) {
      const std::uint8_t* pixel = pixels + std::ptrdiff_t{tap.first} * 3;
      const std::uint8_t* next = tap.next == 0 ? pixel : pixel + 3;
      for (int c = 0; c < 3; ++c) *to++ = static_cast<std::int16_t>((pixel[c] * tap.weight + next[c] * tap.next) >> 4);
    }
    return lines[at].data();
  };
  for (int i = first; i < last; ++i) {
    std::uint8_t* const row = out + static_cast<std::size_t>(i) * stride;
    if (copy_) {
      std::copy_n(reader.row(static_cast<std::size_t>(region_.top + i)) + region_.left * 3, row_bytes, row);
      continue;
    }
    const Tap& tap = rows_[static_cast<std::size_t>(i)];
    mix(line_of(tap.first), line_of(tap.first + 1), tap.weight, tap.next, row, row_bytes);
  }
}

}  // namespace lamina::detail
