#include "pictures/feature_picture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lamina/base/error.h"
#include "pictures/canvas.h"

namespace lamina::app {
namespace {

constexpr Color background{24, 24, 28};
constexpr Color ink{232, 232, 236};
constexpr Color faint{140, 140, 150};

constexpr int margin = 24;
constexpr int left_width = 448;
constexpr int map_size = 110;  // pixels a feature map is drawn with, about
constexpr int label_height = 14;
constexpr int gap = 6;
constexpr int title_size = 20, text_size = 13, number_size = 8;  // heights of capitals
constexpr int most_maps = 256;                                   // more would not be looked at

/// Columns for `count` pictures, half as many again as rows: or near that, if the last row is then full.
int columns_for(int count) {
  const int usual = std::max(1, static_cast<int>(std::ceil(std::sqrt(count * 1.5))));
  for (int step = 0; step <= usual / 4; ++step) {
    if (count % (usual - step) == 0) return usual - step;
    if (count % (usual + step) == 0) return usual + step;
  }
  return usual;
}

/// Columns, rows and cell sizes of a grid of `count` pictures.
struct Grid {
  int columns, rows, cell_width, cell_height;
  Grid(int count, int width, int height)
      : columns(columns_for(count)), rows((count + columns - 1) / columns), cell_width(width), cell_height(height) {}
  int x(int i) const { return i % columns * cell_width; }
  int y(int i) const { return i / columns * cell_height; }
  int width() const { return columns * cell_width; }
  int height() const { return rows * cell_height; }
};

int extent(const Tensor& tensor, int dimension) { return static_cast<int>(tensor.shape()[dimension]); }

/// The value that is drawn brightest: all but the strongest 0.2 % of the activations fit below it.
float brightest(const Tensor& maps) {
  std::vector<float> positive;
  for (const float value : maps.values<float>()) {
    if (value > 0 && std::isfinite(value)) positive.push_back(value);
  }
  if (positive.empty()) return 1;
  const auto at = positive.begin() + static_cast<std::ptrdiff_t>(0.998 * static_cast<double>(positive.size() - 1));
  std::nth_element(positive.begin(), at, positive.end());
  return *at;
}

/// Draws a width x height picture of colours into a box of size x size pixels, each pixel `zoom` wide.
template <class At>
void draw_scaled(Canvas& canvas, int x, int y, int width, int height, int out_width, int out_height, const At& at) {
  for (int row = 0; row < out_height; ++row) {
    for (int column = 0; column < out_width; ++column) {
      canvas.pixel(x + column, y + row, at(row * height / out_height, column * width / out_width));
    }
  }
}

void draw_input(Canvas& canvas, int x, int y, const Image& image) {
  draw_scaled(canvas, x, y, image.width, image.height, left_width, left_width, [&](int row, int column) {
    const auto i =
        (static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) + static_cast<std::size_t>(column)) * 3;
    return Color{image.rgb[i], image.rgb[i + 1], image.rgb[i + 2]};
  });
}

/// One filter around mid-grey, as bright as its largest weight allows.
void draw_filter(Canvas& canvas, int x, int y, const Tensor& filter, ChannelOrder order, int zoom) {
  const int channels = extent(filter, 1), height = extent(filter, 2), width = extent(filter, 3);
  const std::span<const float> w = filter.values<float>();
  float largest = 1e-30f;
  for (const float value : w) largest = std::max(largest, std::abs(value));
  draw_scaled(canvas, x, y, width, height, width * zoom, height * zoom, [&](int row, int column) {
    Color color{};
    for (int c = 0; c < 3; ++c) {
      const int channel = channels == 1 ? 0 : order == ChannelOrder::bgr ? 2 - c : c;
      const float value = w[static_cast<std::size_t>((channel * height + row) * width + column)];
      color[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(std::lround(127.5f + 127.5f * value / largest));
    }
    return color;
  });
}

void draw_filters(Canvas& canvas, int x, int y, const FeaturePicture& p, const Grid& grid, int zoom, int count) {
  for (int i = 0; i < count; ++i) {
    draw_filter(canvas, x + grid.x(i), y + grid.y(i), p.filters.slice(i, i + 1), p.order, zoom);
  }
}

void draw_map(Canvas& canvas, int x, int y, const float* map, int width, int height, int out_width, int out_height,
              float scale) {
  draw_scaled(canvas, x, y, width, height, out_width, out_height, [&](int row, int column) {
    // The square root opens up the dark end, where most activations are.
    const float value = map[static_cast<std::ptrdiff_t>(row) * width + column] / scale;
    return inferno(value > 0 ? std::sqrt(value) : std::isnan(value) ? value : 0.0f);
  });
}

std::string two_digits(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 2).ptr;
  return {text.data(), end};
}

void draw_scale(Canvas& canvas, int x, int y, int width, float largest) {
  for (int i = 0; i < width; ++i)
    canvas.fill(x + i, y, 1, 12, inferno(static_cast<float>(i) / static_cast<float>(width - 1)));
  canvas.text(x, y + 18, "0", text_size, faint);
  const std::string middle = two_digits(largest / 4);
  canvas.text(x + (width - Canvas::text_width(middle, text_size)) / 2, y + 18, middle, text_size, faint);
  const std::string high = two_digits(largest) + " and above";
  canvas.text(x + width - Canvas::text_width(high, text_size), y + 18, high, text_size, faint);
}

/// A size of about `map_size` that draws whole pixels where it can.
int drawn_size(int size, int larger) {
  const int zoom = std::max(1, static_cast<int>(std::lround(static_cast<double>(map_size) / larger)));
  return larger <= map_size ? size * zoom : std::max(1, size * map_size / larger);
}

/// In the width of the photograph: smaller if it is long, and without its middle if it is very long.
void draw_title(Canvas& canvas, const std::string& title) {
  const int size = Canvas::text_width(title, title_size) <= left_width ? title_size : text_size;
  canvas.text(margin, margin + (title_size - size) / 2, Canvas::shortened(title, size, left_width), size, ink);
}

}  // namespace

Image draw(const FeaturePicture& p) {
  const int total = extent(p.maps, 1), height = extent(p.maps, 2), width = extent(p.maps, 3);
  const int count = std::min(total, most_maps);
  const int out_width = drawn_size(width, std::max(width, height));
  const int out_height = drawn_size(height, std::max(width, height));
  const Grid maps(count, out_width + gap, out_height + label_height + gap);

  const bool show_filters = p.filters.defined() && (extent(p.filters, 1) == 3 || extent(p.filters, 1) == 1);
  int zoom = 1;
  Grid filters(count, 1, 1);
  if (show_filters) {
    zoom = std::max(1, (left_width / filters.columns - 3) / extent(p.filters, 3));
    filters.cell_width = left_width / filters.columns;
    filters.cell_height = extent(p.filters, 2) * zoom + 3;
  }

  const int top = margin + 52;
  const int filters_top = top + left_width + 52;
  const int left_height = filters_top + (show_filters ? filters.height() : 0) + 70;
  const int right = margin + left_width + margin + 8;
  Canvas canvas(right + maps.width() + margin, std::max(left_height, top + maps.height()) + margin, background);

  draw_title(canvas, p.title);
  canvas.text(right, margin + 4, p.subtitle, text_size, ink);
  draw_input(canvas, margin, top, p.input);
  if (show_filters) {
    canvas.text(margin, filters_top - 22,
                detail::concat(total, " filters, ", extent(p.filters, 2), "×", extent(p.filters, 3)), text_size, ink);
    draw_filters(canvas, margin, filters_top, p, filters, zoom, count);
  }
  const float largest = brightest(p.maps);
  draw_scale(canvas, margin, left_height - 50, left_width, largest);

  const float* data = p.maps.values<float>().data();
  for (int i = 0; i < count; ++i) {
    const float* map = data + static_cast<std::ptrdiff_t>(i) * width * height;
    const int x = right + maps.x(i), y = top + maps.y(i);
    canvas.text(x, y + 3, std::to_string(i), number_size, faint);
    draw_map(canvas, x, y + label_height, map, width, height, out_width, out_height, largest);
  }
  return canvas.image();
}

}  // namespace lamina::app
