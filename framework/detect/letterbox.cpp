#include "lamina/detect/parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "lamina/base/error.h"

// The fixed-point arithmetic of OpenCV's resize (Apache 2.0): weights of 11 bits, 22 of
// a pixel after the horizontal pass, of which the vertical one takes what a 16-bit product keeps.
namespace lamina::detail {
namespace {

constexpr int one = 2048;
constexpr std::uint8_t grey = 114;  // what lies beside a letterboxed photograph

struct Tap {
  int first = 0;
  int weight = one, next = 0;  // of `first` and of the pixel after it
};

/// Taps of one axis before they are held to the picture.
std::vector<Tap> taps_of(int in, int out) {
  const double scale = 1 / (static_cast<double>(out) / in);
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  for (int i = 0; i < out; ++i) {
    const auto place = static_cast<float>((i + 0.5) * scale - 0.5);
    const float floor = std::floor(place), part = place - floor;
    taps[static_cast<std::size_t>(i)] = {static_cast<int>(floor), static_cast<int>(std::lrintf((1 - part) * one)),
                                         static_cast<int>(std::lrintf(part * one))};
  }
  return taps;
}

}  // namespace

void resize_linear(const ImageView& image, int width, int height, std::uint8_t* out, std::size_t stride) {
  RowReader reader(image, 0, static_cast<std::size_t>(image.width));
  const auto row_bytes = static_cast<std::size_t>(width) * 3;
  std::vector<Tap> columns = taps_of(image.width, width);
  const std::vector<Tap> rows = taps_of(image.height, height);
  for (Tap& tap : columns) {
    if (tap.first >= 0 && tap.first < image.width - 1) continue;
    tap = {std::clamp(tap.first, 0, image.width - 1), one, 0};
  }
  std::array<std::vector<std::int32_t>, 2> lines;  // of neighbouring rows one in each
  std::array<int, 2> held{-1, -1};
  const auto line_of = [&](int row) {
    row = std::clamp(row, 0, image.height - 1);
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
  for (const Tap& tap : rows) {
    const std::int32_t* upper = line_of(tap.first);
    const std::int32_t* lower = line_of(tap.first + 1);
    for (std::size_t x = 0; x < row_bytes; ++x) {
      const int sum = ((tap.weight * (upper[x] >> 4)) >> 16) + ((tap.next * (lower[x] >> 4)) >> 16);
      out[x] = static_cast<std::uint8_t>((sum + 2) >> 2);
    }
    out += stride;
  }
}

Letterbox::Letterbox(int photo_w, int photo_h, int w, int h, bool stretch)
    : width(w), height(h), photo_width(photo_w), photo_height(photo_h), stretched(stretch) {
  inner_width = width, inner_height = height;
  if (stretched) return;
  const double gain = std::min(static_cast<double>(height) / photo_height, static_cast<double>(width) / photo_width);
  // As Python rounds: halves to the even neighbour.
  const auto inner = [&](int side) { return static_cast<int>(std::max(1LL, std::llrint(side * gain))); };
  inner_width = inner(photo_width), inner_height = inner(photo_height);
  const auto before = [](int margin) { return static_cast<int>(std::lrint(margin / 2.0 - 0.1)); };
  left = before(width - inner_width), top = before(height - inner_height);
}

void Letterbox::draw(const ImageView& image, std::span<std::uint8_t> out) const {
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  std::ranges::fill(out, grey);
  resize_linear(image, inner_width, inner_height,
                out.data() + static_cast<std::size_t>(top) * stride + static_cast<std::size_t>(left) * 3, stride);
}

}  // namespace lamina::detail
