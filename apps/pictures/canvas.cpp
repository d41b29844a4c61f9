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

void Canvas::blend(int x, int y, Color color, float amount) {
  if (x < 0 || x >= image_.width || y < 0 || y >= image_.height || amount <= 0) return;
  std::uint8_t* pixel = image_.rgb.data() + (std::ptrdiff_t{y} * image_.width + x) * 3;
  std::ranges::copy(mixed({pixel[0], pixel[1], pixel[2]}, color, std::min(amount, 1.0f)), pixel);
}

void Canvas::line(float x0, float y0, float x1, float y1, float width, Color color) {
  // Along its longer side: only pixels near it are looked at, however long a slanted line is.
  const bool steep = std::abs(y1 - y0) > std::abs(x1 - x0);
  if (steep) std::swap(x0, y0), std::swap(x1, y1);
  if (x0 > x1) std::swap(x0, x1), std::swap(y0, y1);
  const float along = x1 - x0, slope = along > 0 ? (y1 - y0) / along : 0, length = std::hypot(along, y1 - y0);
  const float reach = width / 2 + 1, aside = along > 0 ? reach * length / along : reach;
  const auto side = static_cast<float>(steep ? image_.height : image_.width);
  const int last = static_cast<int>(std::ceil(std::min(x1 + reach, side)));
  for (int a = static_cast<int>(std::floor(std::max(x0 - reach, 0.0f))); a < last; ++a) {
    const float x = static_cast<float>(a) + 0.5f, middle = y0 + slope * (x - x0);
    if (!(std::abs(middle) < 1e6f)) continue;
    for (int b = static_cast<int>(std::floor(middle - 2 * aside)); b <= static_cast<int>(middle + 2 * aside); ++b) {
      const float y = static_cast<float>(b) + 0.5f;
      const float part = length > 0 ? ((x - x0) * along + (y - y0) * (y1 - y0)) / (length * length) : 0;
      const float nearest = std::clamp(part, 0.0f, 1.0f);
      const float distance = std::hypot(x - x0 - nearest * along, y - y0 - nearest * (y1 - y0));
      blend(steep ? b : a, steep ? a : b, color, width / 2 + 0.5f - distance);
    }
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
