#include "pictures/window_picture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/graph/photographs.h"
#include "pictures/maps.h"
#include "pictures/style.h"
#include "words.h"

namespace lamina::app {
namespace {

using namespace style;

constexpr int side = 448;
constexpr int sign_width = 44;  // "×" and "=" between the enlarged squares
constexpr int large = 196;      // about the size of these
constexpr int value_height = 30, line_height = text_size + 11;

/// With two digits behind the point, or as many as tell it from every other float.
std::string text_of(double value) {
  return written(value, std::abs(value) >= 1e6 ? std::chars_format::scientific : std::chars_format::fixed, 2);
}

std::string exactly(float value) {
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// A line around a box, white within black, so that it shows on any colour.
void draw_outline(Canvas& canvas, int x, int y, int width, int height) {
  for (const auto& [out, color] : {std::pair{3, Color{0, 0, 0}}, {2, Color{255, 255, 255}}}) {
    const int thick = out == 3 ? 4 : 2;
    canvas.fill(x - out, y - out, width + 2 * out, thick, color);
    canvas.fill(x - out, y + height + out - thick, width + 2 * out, thick, color);
    canvas.fill(x - out, y - out, thick, height + 2 * out, color);
    canvas.fill(x + width + out - thick, y - out, thick, height + 2 * out, color);
  }
}

/// The pixels that are multiplied; grey where the window lies in the padding.
void draw_pixels(Canvas& canvas, int x, int y, int zoom, const Image& input, const WindowSum& w) {
  for (int row = 0; row < w.kernel.height; ++row) {
    for (int column = 0; column < w.kernel.width; ++column) {
      const int py = w.top + row * w.dilation.height, px = w.left + column * w.dilation.width;
      const bool inside = py >= 0 && py < input.height && px >= 0 && px < input.width;
      canvas.fill(x + column * zoom, y + row * zoom, zoom, zoom,
                  inside ? pixel_of(input, px, py) : Color{119, 119, 119});
    }
  }
}

void draw_products(Canvas& canvas, int x, int y, int zoom, const WindowSum& w) {
  std::vector<float> values(w.products.begin(), w.products.end());
  ColourScale scale{.largest = 1e-30f, .negative = true};
  for (const float value : values) scale.largest = std::max(scale.largest, std::abs(value));
  for (int i = 0; i < w.kernel.height * w.kernel.width; ++i) {
    canvas.fill(x + i % w.kernel.width * zoom, y + i / w.kernel.width * zoom, zoom, zoom,
                scale.at(scale.place(values[static_cast<std::size_t>(i)])));
  }
}

/// Words in lines of that width. Returns where the next line would stand.
int draw_words(Canvas& canvas, int x, int y, const std::string& words, int width, Color color) {
  std::string line;
  const auto flush = [&] {
    canvas.text(x, y, line, text_size, color);
    y += line_height;
    line.clear();
  };
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    if (!line.empty() && Canvas::text_width(line + ' ' + word, text_size) > width) flush();
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  if (!line.empty()) flush();
  return y;
}

/// "the filter always adds 0.12": as far as what is shown of the sum is from what is shown of both, so that it adds up.
std::string bias_of(const WindowSum& w) {
  const auto shown = [](double value) { return number_in<double>(text_of(value)).value_or(value); };
  const double bias = shown(w.sum + static_cast<double>(w.bias)) - shown(w.sum);
  return detail::concat("the filter always ", w.bias < 0 ? "takes off " : "adds ", text_of(std::abs(bias)));
}

std::string in_words(const WindowSum& w, const ShownLayer& layer, float best) {
  const float share = best > 0 ? w.value / best : 0;
  std::string words = share >= 0.66f   ? "It fits very well here:"
                      : share >= 0.33f ? "It fits somewhat here:"
                      : share > 0      ? "It hardly fits here:"
                                       : "It does not fit here:";
  words += detail::concat(" the products add up to ", text_of(w.sum), ", and ", bias_of(w), '.');
  if (layer.normalised) words += " That is then normalised.";
  if (w.value == 0 && w.sum + static_cast<double>(w.bias) < 0) words += " Less than nothing counts as nothing.";
  return words;
}

}  // namespace

WindowSum explain(const ShownLayer& layer, const Tensor& seen, const Tensor& maps, double x, double y, int filter) {
  if (!layer.filters.defined() || !layer.field) {
    detail::fail("--explain: expected a layer whose filters see the photograph itself; those of ", layer.name,
                 " do not (--layer names another one)");
  }
  const ReceptiveField& field = *layer.field;
  const int count = extent(maps, 1), height = extent(maps, 2), width = extent(maps, 3);
  if (filter >= count) {
    detail::fail("--filter: expected a filter of ", layer.name, ", from 0 to ", count - 1, ", got ", filter);
  }
  const auto nearest = [](double at, int start, int size, int stride, int most) {
    return static_cast<int>(std::clamp(std::lround((at - start - size / 2.0) / stride), 0L, most - 1L));
  };
  WindowSum w;
  w.row = nearest(y, field.top, field.size.height, field.stride.height, height);
  w.column = nearest(x, field.left, field.size.width, field.stride.width, width);
  w.top = field.top + w.row * field.stride.height;
  w.left = field.left + w.column * field.stride.width;
  const auto value_of = [&](int map) {
    return FeatureMap::of(maps, map).values[static_cast<std::size_t>(w.row * width + w.column)];
  };
  w.filter = std::max(filter, 0);
  for (int map = 0; filter < 0 && map < count; ++map) {
    if (value_of(map) > value_of(w.filter)) w.filter = map;
  }
  w.value = value_of(w.filter);
  if (layer.bias.defined()) w.bias = layer.bias.values<float>()[static_cast<std::size_t>(w.filter)];
  w.kernel = {extent(layer.filters, 2), extent(layer.filters, 3)};
  const auto apart = [](int size, int taps) { return taps > 1 ? (size - 1) / (taps - 1) : 1; };
  w.dilation = {apart(field.size.height, w.kernel.height), apart(field.size.width, w.kernel.width)};
  const std::span<const float> pixels = seen.values<float>(), weights = layer.filters.values<float>();
  const int rows = extent(seen, 2), columns = extent(seen, 3), taps = w.kernel.height * w.kernel.width;
  const int channels = extent(layer.filters, 1);
  for (int i = 0; i < taps; ++i) {
    const int py = w.top + i / w.kernel.width * w.dilation.height, px = w.left + i % w.kernel.width * w.dilation.width;
    double product = 0;
    for (int c = 0; c < 3 && py >= 0 && py < rows && px >= 0 && px < columns; ++c) {
      product += static_cast<double>(pixels[static_cast<std::size_t>((c * rows + py) * columns + px)]) *
                 static_cast<double>(
                     weights[static_cast<std::size_t>((w.filter * channels + (channels > 1 ? c : 0)) * taps + i)]) *
                 (channels > 1 ? 1.0 : static_cast<double>(grey_shares[static_cast<std::size_t>(c)]));
    }
    w.products.push_back(product);
    w.sum += product;
  }
  return w;
}

Image draw(const WindowPicture& p) {
  const WindowSum& w = p.window;
  const FeatureMap map = FeatureMap::of(p.maps, w.filter);
  const int zoom = std::max(1, large / std::max(w.kernel.height, w.kernel.width));
  const int square_width = w.kernel.width * zoom, square_height = w.kernel.height * zoom;
  const auto shown = drawn_sides(p.input, side);
  const int top = margin + title_size + 20, below = top + shown.height + caption_size + 8 + 28;
  const int right = margin + side + between;
  Canvas canvas(right + side + margin, below + std::max(square_height, large) + caption_size + 8 + margin, background);
  canvas.text(margin, margin, Canvas::shortened(p.title, title_size, side), title_size, ink);
  canvas.text(right, margin + title_size - text_size, Canvas::shortened(p.subtitle, text_size, side), text_size, ink);

  draw_photo(canvas, margin, top, side, p.input);
  const auto across = [&](int pixel, int of) { return static_cast<int>(std::int64_t{pixel} * shown.width / of); };
  const auto down = [&](int pixel, int of) { return static_cast<int>(std::int64_t{pixel} * shown.height / of); };
  const int wide = (w.kernel.width - 1) * w.dilation.width + 1, high = (w.kernel.height - 1) * w.dilation.height + 1;
  draw_outline(canvas, margin + across(w.left, p.input.width), top + down(w.top, p.input.height),
               across(wide, p.input.width), down(high, p.input.height));
  draw_map(canvas, right, top, shown.width, shown.height, map, ColourScale::of(map.values));
  draw_outline(canvas, right + across(w.column, map.width), top + down(w.row, map.height),
               std::max(1, across(1, map.width)), std::max(1, down(1, map.height)));
  const auto caption = [&](int x, int y, const std::string& words) { canvas.text(x, y, words, caption_size, faint); };
  caption(margin, top + shown.height + 8, "The photograph, as the network sees it, and one window");
  caption(right, top + shown.height + 8, detail::concat("Its map: row ", w.row, ", column ", w.column, " is marked"));

  int x = margin;
  const auto square = [&](const std::string& words, const char* sign) {
    caption(x, below + square_height + 8, words);
    canvas.text(x + square_width + sign_width / 2, below + square_height / 2 - title_size / 2, sign, title_size, ink,
                Canvas::At::middle);
    x += square_width + sign_width;
  };
  draw_pixels(canvas, x, below, zoom, p.input, w);
  square(detail::concat("The window: ", high, " × ", wide, " pixels"), "×");
  draw_filter(canvas, x, below, p.layer.filters.slice(w.filter, w.filter + 1), p.order, zoom);
  square(detail::concat("The pattern: filter ", w.filter), "=");
  draw_products(canvas, x, below, zoom, w);
  square("Warm: alike, cold: opposite", "");

  canvas.text(x, below, text_of(static_cast<double>(w.value)), value_height, accent);
  const int width = canvas.image().width - margin - x;
  const float best = *std::ranges::max_element(map.values);
  int y = draw_words(canvas, x, below + value_height + 18, in_words(w, p.layer, best), width, ink);
  draw_words(canvas, x, y + 6, detail::concat("Exactly ", exactly(w.value), '.'), width, faint);
  return canvas.image();
}

}  // namespace lamina::app
