#include "pictures/canvas.h"

#include <algorithm>
#include <cmath>

#include "pictures/letters.h"

namespace lamina::app {
namespace {

// Eleven samples, 0.1 apart; between them the map is close to linear.
constexpr Color inferno_stops[] = {{0x00, 0x00, 0x04}, {0x16, 0x0b, 0x39}, {0x42, 0x0a, 0x68}, {0x6a, 0x17, 0x6e},
                                   {0x93, 0x26, 0x67}, {0xbc, 0x37, 0x54}, {0xdd, 0x51, 0x3a}, {0xf3, 0x78, 0x19},
                                   {0xfc, 0xa5, 0x0a}, {0xf6, 0xd7, 0x46}, {0xfc, 0xff, 0xa4}};

}  // namespace

Color inferno(float value) { return std::isnan(value) ? Color{128, 128, 128} : along(inferno_stops, value); }

Color along(std::span<const Color> stops, float value) {
  const float position = std::clamp(value, 0.0f, 1.0f) * static_cast<float>(stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(position), stops.size() - 2);
  return mixed(stops[below], stops[below + 1], position - static_cast<float>(below));
}

Color mixed(Color from, Color to, float part) {
  Color result{};
  for (std::size_t c = 0; c < 3; ++c) {
    const float low = from[c], high = to[c];
    result[c] = static_cast<std::uint8_t>(std::lround(low + (high - low) * part));
  }
  return result;
}

int brightness(Color color) { return (299 * color[0] + 587 * color[1] + 114 * color[2]) / 1000; }

Color pixel_of(const Image& image, int x, int y) {
  const std::uint8_t* pixel = image.rgb.data() + (std::ptrdiff_t{y} * image.width + x) * 3;
  return {pixel[0], pixel[1], pixel[2]};
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
      std::ranges::copy(color, image_.rgb.begin() + (std::ptrdiff_t{row} * image_.width + column) * 3);
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
  pixel(x, y, mixed(pixel_of(image_, x, y), color, std::min(amount, 1.0f)));
}

int pixel_at(float place) {
  constexpr float most = 1e6f;
  return static_cast<int>(std::fmin(std::fmax(place, -most), most));
}

void Canvas::line(float x0, float y0, float x1, float y1, float width, Color color) {
  // What of it may be seen: places far beyond are no whole numbers, and would be walked to.
  if (!std::isfinite(double{x0} + x1 + y0 + y1)) return;
  const auto cut = [reach = width / 2 + 1.0](float& a0, float& b0, float& a1, float& b1, int side) {
    for (const double sign : {1.0, -1.0}) {
      const double bound = sign > 0 ? -reach : side + reach, in0 = sign * (a0 - bound), in1 = sign * (a1 - bound);
      if (in0 < 0 && in1 < 0) return false;
      const double step = double{b1} - b0;
      if (in0 < 0) a0 = static_cast<float>(bound), b0 = static_cast<float>(b0 + step * (in0 / (in0 - in1)));
      if (in1 < 0) a1 = static_cast<float>(bound), b1 = static_cast<float>(b1 - step * (in1 / (in1 - in0)));
    }
    return true;
  };
  if (!cut(x0, y0, x1, y1, image_.width) || !cut(y0, x0, y1, x1, image_.height)) return;
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
    for (int b = static_cast<int>(std::floor(middle - 2 * aside)); b <= static_cast<int>(middle + 2 * aside); ++b) {
      const float y = static_cast<float>(b) + 0.5f;
      const float part = length > 0 ? ((x - x0) * along + (y - y0) * (y1 - y0)) / (length * length) : 0;
      const float nearest = std::clamp(part, 0.0f, 1.0f);
      const float distance = std::hypot(x - x0 - nearest * along, y - y0 - nearest * (y1 - y0));
      blend(steep ? b : a, steep ? a : b, color, width / 2 + 0.5f - distance);
    }
  }
}

void Canvas::text(int x, int y, const std::string& text, int size, Color color, At at) {
  if (at != At::begin) x -= text_width(text, size) / (at == At::middle ? 2 : 1);
  draw_letters(code_points(text), size, [&](int dx, int dy, std::uint8_t amount) {
    const int column = x + dx, row = y + dy;
    if (column < 0 || column >= image_.width || row < 0 || row >= image_.height) return;
    Color pixel = pixel_of(image_, column, row);
    for (std::size_t c = 0; c < 3; ++c) {
      pixel[c] = static_cast<std::uint8_t>(pixel[c] + (color[c] - pixel[c]) * amount / 255);
    }
    this->pixel(column, row, pixel);
  });
}

int Canvas::text_width(const std::string& text, int size) {
  return static_cast<int>(std::ceil(letters_width(code_points(text), size)));
}

std::string Canvas::shortened(const std::string& text, int size, int width) {
  // Letter by letter, and no further than there is room: a file may have names of any length.
  const std::u32string letters = code_points(text);
  const auto room = static_cast<float>(width);
  const auto width_of = [&](std::size_t at) { return letters_width(std::u32string_view(letters).substr(at, 1), size); };
  float all = 0;
  std::size_t fitting = 0, side = 0;
  while (fitting < letters.size() && all <= room) all += width_of(fitting++);
  if (all <= room) return text;
  for (float used = letters_width(U"\u2026", size); side < letters.size() / 2; ++side) {
    used += width_of(side) + width_of(letters.size() - 1 - side);
    if (used > room) break;
  }
  return utf8(letters.substr(0, side) + U"\u2026" + letters.substr(letters.size() - side));
}

}  // namespace lamina::app
