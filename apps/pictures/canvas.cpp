#include "pictures/canvas.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb_easy_font.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

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

/// As stb_easy_font lays out its quads.
struct Vertex {
  float x, y, z;
  std::uint8_t color[4];
};

// stb_easy_font takes a mutable string but does not write to it.
char* letters(const std::string& text) { return const_cast<char*>(text.c_str()); }

}  // namespace

Color inferno(float value) {
  if (std::isnan(value)) return {128, 128, 128};
  const float position = std::clamp(value, 0.0f, 1.0f) * (inferno_stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(position), inferno_stops.size() - 2);
  const float fraction = position - static_cast<float>(below);
  Color result{};
  for (std::size_t c = 0; c < 3; ++c) {
    const float low = inferno_stops[below][c];
    const float high = inferno_stops[below + 1][c];
    result[c] = static_cast<std::uint8_t>(std::lround(low + (high - low) * fraction));
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

void Canvas::text(int x, int y, const std::string& text, int scale, Color color) {
  std::vector<Vertex> vertices(text.size() * 4 * 20 + 4);
  const int quads = stb_easy_font_print(0, 0, letters(text), nullptr, vertices.data(),
                                        static_cast<int>(vertices.size() * sizeof(Vertex)));
  for (int q = 0; q < quads; ++q) {
    const Vertex& first = vertices[static_cast<std::size_t>(q) * 4];
    const Vertex& opposite = vertices[static_cast<std::size_t>(q) * 4 + 2];
    const auto at = [scale](float v) { return static_cast<int>(std::lround(v)) * scale; };
    fill(x + at(first.x), y + at(first.y), at(opposite.x) - at(first.x), at(opposite.y) - at(first.y), color);
  }
}

int Canvas::text_width(const std::string& text, int scale) { return stb_easy_font_width(letters(text)) * scale; }

}  // namespace lamina::app
