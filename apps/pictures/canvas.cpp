#include "pictures/canvas.h"

#include <algorithm>
#include <cmath>

#include "pictures/letters.h"

namespace lamina::app {
namespace {

// Eleven samples, 0.1 apart; between them the map is close to linear.
constexpr std::array<Color, 11> inferno_stops = {{{0x00, 0x00, 0x04},
                                                  {0x16, 0x0b, 0x39},
                                                  {0x42, 0x0a, 0x68},
                                                  {0x6a, 0x17, 0x6e},
                                                  {0x93, 0x26, 0x67},
                                                  {0xbc, 0x37, 0x54},
                                                  {0xdd, 0x51, 0x3a},
                                                  {0xf3, 0x78, 0x19},
                                                  {0xfc, 0xa5, 0x0a},
                                                  {0xf6, 0xd7, 0x46},
                                                  {0xfc, 0xff, 0xa4}}};

}  // namespace

Color inferno(float value) {
  if (std::isnan(value)) return {128, 128, 128};
  const float position = std::clamp(value, 0.0f, 1.0f) * (inferno_stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(position), inferno_stops.size() - 2);
  return mixed(inferno_stops[below], inferno_stops[below + 1], position - static_cast<float>(below));
}

Color mixed(Color from, Color to, float part) {
  Color result{};
  for (std::size_t c = 0; c < 3; ++c) {
    const float low = from[c], high = to[c];
    result[c] = static_cast<std::uint8_t>(std::lround(low + (high - low) * part));
  }
  return result;
}

Canvas::Canvas(int width, int height, Color background) {
  image_.width = width;
  image_.height = height;
  image_.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  fill(0, 0, width, height, background);
}

void Canvas::fill(int x, int y, int width, int height, Color color) {
  for (int row = std::max(0, y); row < std::min(image_.height, y + height); ++row) {
    for (int column = std::max(0, x); column < std::min(image_.width, x + width); ++column) {
      const auto at =
          (static_cast<std::size_t>(row) * static_cast<std::size_t>(image_.width) + static_cast<std::size_t>(column)) *
          3;
      std::copy(color.begin(), color.end(), image_.rgb.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

void Canvas::picture(int x, int y, const Image& picture) {
  const int first = std::max(0, -x), last = std::min(picture.width, image_.width - x);
  for (int row = std::max(0, -y); row < std::min(picture.height, image_.height - y) && first < last; ++row) {
    const auto from = (std::ptrdiff_t{row} * picture.width + first) * 3;
    const auto to = (std::ptrdiff_t{y + row} * image_.width + x + first) * 3;
    std::copy_n(picture.rgb.begin() + from, (last - first) * std::ptrdiff_t{3}, image_.rgb.begin() + to);
  }
}

void Canvas::text(int x, int y, const std::string& text, int size, Color color) {
  draw_letters(code_points(text), size, [&](int dx, int dy, std::uint8_t amount) {
    const int column = x + dx, row = y + dy;
    if (column < 0 || column >= image_.width || row < 0 || row >= image_.height) return;
    const auto at =
        (static_cast<std::size_t>(row) * static_cast<std::size_t>(image_.width) + static_cast<std::size_t>(column)) * 3;
    for (std::size_t c = 0; c < 3; ++c) {
      const int below = image_.rgb[at + c];
      image_.rgb[at + c] = static_cast<std::uint8_t>(below + (color[c] - below) * amount / 255);
    }
  });
}

int Canvas::text_width(const std::string& text, int size) {
  return static_cast<int>(std::ceil(letters_width(code_points(text), size)));
}

std::string Canvas::shortened(const std::string& text, int size, int width) {
  const std::u32string letters = code_points(text);
  if (letters_width(letters, size) <= static_cast<float>(width)) return text;
  // As many letters at both ends as there is room for.
  const auto with_ends = [&](std::size_t side) {
    return letters.substr(0, side) + U"\u2026" + letters.substr(letters.size() - side);
  };
  std::size_t low = 0, high = letters.size() / 2;
  while (low < high) {
    const std::size_t side = (low + high + 1) / 2;
    if (letters_width(with_ends(side), size) <= static_cast<float>(width)) {
      low = side;
    } else {
      high = side - 1;
    }
  }
  return utf8(with_ends(low));
}

}  // namespace lamina::app
