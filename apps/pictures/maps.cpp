#include "pictures/maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "lamina/images/resize.h"
#include "pictures/style.h"

namespace lamina::app {
namespace {

/// Negative values: as far apart for the eye as inferno's colours, and none of them.
Color frost(float value) {
  constexpr Color stops[] = {{0x00, 0x00, 0x04}, {0x0a, 0x20, 0x33}, {0x0d, 0x45, 0x66},
                             {0x1c, 0x78, 0x99}, {0x4f, 0xb3, 0xc4}, {0xd4, 0xf5, 0xee}};
  return along(stops, value);
}

std::string two_digits(float value) { return written(static_cast<double>(value), std::chars_format::general, 2); }

/// The pixels [first, last) of `size` that pixel `i` of `out` shows.
struct Covered {
  int first, last;
  Covered(int i, int size, int out)
      : first(static_cast<int>(std::int64_t{i} * size / out)),
        last(std::max(first + 1, static_cast<int>((std::int64_t{i} + 1) * size / out))) {}
};

float value_at(const FeatureMap& map, int row, int column) {
  return map
      .values[static_cast<std::size_t>(row) * static_cast<std::size_t>(map.width) + static_cast<std::size_t>(column)];
}

/// Where pixel `i` of `out` lies among `size`, and between which two.
struct Between {
  int low, high;
  float part;
  Between(int i, int size, int out) {
    const float position =
        std::max(0.0f, (static_cast<float>(i) + 0.5f) * static_cast<float>(size) / static_cast<float>(out) - 0.5f);
    low = std::min(static_cast<int>(position), size - 1);
    high = std::min(low + 1, size - 1);
    part = position - static_cast<float>(low);
  }
};

}  // namespace

std::string written(double value, std::chars_format format, int digits) {
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr};
}

std::vector<Strength> strongest(const Tensor& maps, int count) {
  const std::span<const float> values = maps.values<float>();
  const auto channels = static_cast<std::size_t>(extent(maps, 1));
  const std::size_t pixels = values.size() / channels;
  std::vector<Strength> result;
  for (std::size_t i = 0; i < channels; ++i) {
    const auto map = values.subspan(i * pixels, pixels);
    double sum = 0, answers = 0;
    for (const float value : map) {
      sum += static_cast<double>(value);
      answers += value > 0;
    }
    const auto places = static_cast<double>(pixels);
    result.push_back({static_cast<int>(i), sum / places, *std::ranges::max_element(map), answers / places});
  }
  // NaN compares false with everything: put it last, or the order would be none.
  const auto key = [](const Strength& s) {
    return std::isnan(s.mean) ? -std::numeric_limits<double>::infinity() : s.mean;
  };
  std::ranges::stable_sort(result, std::ranges::greater(), key);
  result.resize(std::min(result.size(), static_cast<std::size_t>(std::max(count, 0))));
  return result;
}

ColourScale ColourScale::of(const Tensor& maps) { return of(maps.values<float>()); }

ColourScale ColourScale::of(std::span<const float> values) {
  ColourScale scale;
  std::vector<float> sizes;
  for (const float value : values) {
    if (value != 0 && std::isfinite(value)) sizes.push_back(std::abs(value));
    scale.negative = scale.negative || value < 0;
  }
  if (sizes.empty()) return scale;
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(sizes.size() - 1));
  std::nth_element(sizes.begin(), at, sizes.end());
  scale.largest = *at;
  return scale;
}

float ColourScale::place(float value) const {
  const float share = std::min(std::sqrt(std::abs(value) / largest), 1.0f);  // of NaN: NaN
  return std::isnan(value) ? value : value < 0 ? -share : share;
}

Color ColourScale::at(float place) const {
  const auto lifted = [](float share) { return silent + (1 - silent) * share; };  // NaN stays NaN
  return place < 0 ? mixed(inferno(silent), frost(lifted(-place)), std::min(1.0f, -4 * place)) : inferno(lifted(place));
}

FeatureMap FeatureMap::of(const Tensor& maps, int index) {
  const int height = extent(maps, 2), width = extent(maps, 3);
  const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  return {maps.values<float>().subspan(static_cast<std::size_t>(index) * pixels, pixels), height, width};
}

void draw_map(Canvas& canvas, int x, int y, int out_width, int out_height, const FeatureMap& map,
              const ColourScale& scale) {
  for (int row = 0; row < out_height; ++row) {
    const Covered rows(row, map.height, out_height);
    for (int column = 0; column < out_width; ++column) {
      const Covered columns(column, map.width, out_width);
      float sum = 0;
      for (int r = rows.first; r < rows.last; ++r) {
        for (int c = columns.first; c < columns.last; ++c) sum += value_at(map, r, c);
      }
      const int count = (rows.last - rows.first) * (columns.last - columns.first);
      canvas.pixel(x + column, y + row, scale.at(scale.place(sum / static_cast<float>(count))));
    }
  }
}

Sides drawn_sides(const Image& photo, int size) {
  const std::int64_t longer = std::max(photo.width, photo.height);
  const auto side = [&](int pixels) { return std::max(1, static_cast<int>(size * std::int64_t{pixels} / longer)); };
  return {side(photo.width), side(photo.height)};
}

void draw_over_photo(Canvas& canvas, int x, int y, int size, const Image& photo, const FeatureMap& map,
                     const ColourScale& scale) {
  constexpr float dimmed = 0.5f;
  const auto [width, height] = drawn_sides(photo, size);
  const Image below = detail::resize_bilinear(photo, width, height, {0, 0, width, height});
  for (int row = 0; row < height; ++row) {
    const Between rows(row, map.height, height);
    for (int column = 0; column < width; ++column) {
      const Between columns(column, map.width, width);
      const auto along = [&](int r) {
        return std::lerp(value_at(map, r, columns.low), value_at(map, r, columns.high), columns.part);
      };
      const float place = scale.place(std::lerp(along(rows.low), along(rows.high), rows.part));
      const int grey = brightness(pixel_of(below, column, row));
      const int dark = static_cast<int>(std::lround(dimmed * static_cast<float>(grey)));
      // As light is added, so that the photograph shows under strong maps too; little of it where they are weak.
      const float shown = std::isnan(place) ? 0.0f : place;
      Color color = mixed({0, 0, 0}, scale.at(shown), std::abs(shown));
      for (std::uint8_t& c : color) c = static_cast<std::uint8_t>(255 - (255 - dark) * (255 - c) / 255);
      canvas.pixel(x + column, y + row, color);
    }
  }
}

void draw_filter(Canvas& canvas, int x, int y, const Tensor& filter, ChannelOrder order, int zoom) {
  const int channels = extent(filter, 1), height = extent(filter, 2), width = extent(filter, 3);
  const std::span<const float> w = filter.values<float>();
  float largest = 1e-30f;
  for (const float value : w) largest = std::max(largest, std::abs(value));
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      Color color{};
      for (int c = 0; c < 3; ++c) {
        const int channel = channels == 1 ? 0 : order == ChannelOrder::bgr ? 2 - c : c;
        const float value = w[static_cast<std::size_t>((channel * height + row) * width + column)];
        const float level = std::isfinite(value) ? 127.5f + 127.5f * value / largest : 127.5f;
        color[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(std::lround(std::clamp(level, 0.0f, 255.0f)));
      }
      canvas.fill(x + column * zoom, y + row * zoom, zoom, zoom, color);
    }
  }
}

void draw_scale(Canvas& canvas, int x, int y, int width, const ColourScale& scale) {
  constexpr int height = 12;
  const float least = scale.negative ? -1.0f : 0.0f;
  for (int i = 0; i < width; ++i) {
    const float share = static_cast<float>(i) / static_cast<float>(std::max(1, width - 1));
    canvas.fill(x + i, y, 1, height, scale.at(std::lerp(least, 1.0f, share)));
  }
  const std::string high = two_digits(scale.largest) + " and above";
  const std::string low = scale.negative ? two_digits(-scale.largest) + " and below" : "0";
  const std::string middle = scale.negative ? "0" : two_digits(scale.largest / 4);
  const int below = y + height + 8;
  canvas.text(x, below, low, style::caption_size, style::faint);
  canvas.text(x + width / 2, below, middle, style::caption_size, style::faint, Canvas::At::middle);
  canvas.text(x + width, below, high, style::caption_size, style::faint, Canvas::At::end);
}

void draw_photo(Canvas& canvas, int x, int y, int size, const Image& photo) {
  constexpr int pixel_art = 4;  // times that a picture of few pixels is enlarged, which smoothing would only blur
  const auto [width, height] = drawn_sides(photo, size);
  if (photo.width * pixel_art > width) {
    canvas.picture(x, y, detail::resize_bilinear(photo, width, height, {0, 0, width, height}));
    return;
  }
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      canvas.pixel(x + column, y + row, pixel_of(photo, column * photo.width / width, row * photo.height / height));
    }
  }
}

}  // namespace lamina::app
