#pragma once

#include <lamina/lamina.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lamina::app {

using Color = std::array<std::uint8_t, 3>;

/// The perceptually uniform colour map "inferno" of Smith and van der Walt (2015, CC0): 0 is black, 1 pale yellow.
/// Values outside [0, 1] are clamped; NaN is grey.
Color inferno(float value);

/// The colour that lies `part` of the way from the one to the other.
Color mixed(Color from, Color to, float part);
/// How bright it looks, from 0 to 255.
int brightness(Color color);
/// The colour at `value` from 0, the first, to 1, the last; beyond them these.
Color along(std::span<const Color> stops, float value);

Color pixel_of(const Image& image, int x, int y);

/// Each pixel of rows of `channels` numbers as zoom x zoom of them.
template <class T>
std::vector<T> enlarged(const std::vector<T>& pixels, int width, int height, int channels, int zoom) {
  std::vector<T> result;
  result.reserve(pixels.size() * static_cast<std::size_t>(zoom) * static_cast<std::size_t>(zoom));
  for (int y = 0; y < height * zoom; ++y) {
    for (int x = 0; x < width * zoom; ++x) {
      const auto at = (std::ptrdiff_t{y / zoom} * width + x / zoom) * channels;
      result.insert(result.end(), pixels.begin() + at, pixels.begin() + at + channels);
    }
  }
  return result;
}

/// The pixel that a place is in; one far beyond any picture, or no number, becomes one that is beyond its edges.
int pixel_at(float place);

/// An RGB picture to draw on. What falls outside is cut off.
class Canvas {
 public:
  Canvas(int width, int height, Color background);

  void fill(int x, int y, int width, int height, Color color);
  void pixel(int x, int y, Color color) { fill(x, y, 1, 1, color); }
  void picture(int x, int y, const Image& picture);
  /// A line with round ends, its middle from one place to the other; of no length, a dot.
  void line(float x0, float y0, float x1, float y1, float width, Color color);
  /// UTF-8 text whose capitals are `size` pixels high, their upper edge at y; it begins at x, or has its middle there,
  /// or its end.
  enum class At : std::uint8_t { begin, middle, end };
  void text(int x, int y, const std::string& text, int size, Color color, At at = At::begin);
  static int text_width(const std::string& text, int size);
  /// The text, without its middle if it is wider.
  static std::string shortened(const std::string& text, int size, int width);

  const Image& image() const { return image_; }

 private:
  void blend(int x, int y, Color color, float amount);

  Image image_;
};

}  // namespace lamina::app
