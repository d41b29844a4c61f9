#include "pictures/feature_picture.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"
#include "pictures/maps.h"
#include "pictures/style.h"

namespace lamina::app {
namespace {

using namespace style;

constexpr int left_width = 448;
constexpr int gap = 6;  // between two maps
constexpr int number_height = number_size + 6;
constexpr int heading_height = text_size + 14;
constexpr int shown_gap = 12, shown_size = 160;  // of maps over the photograph
constexpr int shown_height = shown_size + caption_size + 8;

/// Columns for `count` pictures, half as many again as rows: or near that, if the last row is then full.
int columns_for(int count) {
  const int usual = std::max(1, static_cast<int>(std::ceil(std::sqrt(count * 1.5))));
  for (int step = 0; step <= usual / 4; ++step) {
    if (count % (usual - step) == 0) return usual - step;
    if (count % (usual + step) == 0) return usual + step;
  }
  return std::min(usual, count);
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

/// The size that a map of `size` of its `larger` side gets, so that all together take about as much room whatever their
/// number: whole multiples where it is small.
int drawn_size(int size, int larger, int count) {
  constexpr double area = 1400.0 * 1060.0;
  const int most = std::clamp(static_cast<int>(std::sqrt(area / count)) - number_height, 60, 330);
  if (larger > most) return std::max(1, size * most / larger);
  return size * std::max(1, most * 115 / 100 / larger);
}

void draw_frame(Canvas& canvas, int x, int y, int width, int height) {
  canvas.fill(x - frame, y - frame, width + 2 * frame, height + 2 * frame, accent);
}

/// How large the filters are drawn, and where.
struct FilterGrid {
  bool shown = false, numbered = false;
  int zoom = 1, count = 0;
  Grid grid;

  FilterGrid(const Tensor& filters, int maps, int total) : count(maps), grid(maps, 1, 1) {
    shown = filters.defined() && (extent(filters, 1) == 3 || extent(filters, 1) == 1) && extent(filters, 0) >= total;
    if (!shown) return;
    grid.cell_width = left_width / grid.columns;
    numbered = grid.cell_width >= 24;
    zoom = std::clamp((grid.cell_width - 4) / extent(filters, 3), 1, 24);
    grid.cell_height = extent(filters, 2) * zoom + (numbered ? number_height : 0) + 5;
  }

  void draw(Canvas& canvas, int x, int y, const FeaturePicture& p, const std::vector<int>& drawn,
            const std::vector<bool>& marked) const {
    const int number = numbered ? number_height : 0;
    for (int i = 0; i < count; ++i) {
      const int left = x + grid.x(i), top = y + grid.y(i), map = drawn[static_cast<std::size_t>(i)];
      const bool mark = marked[static_cast<std::size_t>(map)];
      if (numbered) canvas.text(left, top + 2, std::to_string(map), number_size, mark ? accent : faint);
      if (mark) draw_frame(canvas, left, top + number, extent(p.filters, 3) * zoom, extent(p.filters, 2) * zoom);
      draw_filter(canvas, left, top + number, p.filters.slice(map, map + 1), p.order, zoom);
    }
  }
};

std::string number_of(double value) {
  return written(value, value >= 1e6 ? std::chars_format::scientific : std::chars_format::fixed,
                 value >= 100 ? 0
                 : value >= 1 ? 1
                              : 2);
}

std::string share_of(const Strength& s) { return detail::concat(std::lround(100 * s.share), " %"); }
std::string places_of(const Strength& s) { return share_of(s) + " of places"; }

/// "#4" and how much of the photograph it answers to, above the map over the photograph, which is as bright as its own
/// values allow.
void draw_shown(Canvas& canvas, int x, int y, int size, const FeaturePicture& p, const Strength& s) {
  const std::string name = detail::concat('#', s.map);
  canvas.text(x, y, name, caption_size, accent);
  const int room = size - Canvas::text_width(name, caption_size) - 4;
  const bool fits = Canvas::text_width(places_of(s), caption_size) < room;
  const std::string places = fits ? places_of(s) : share_of(s);  // of what, a wider caption beside it says
  canvas.text(x + size, y, places, caption_size, faint, Canvas::At::end);
  const FeatureMap map = FeatureMap::of(p.maps, s.map);
  draw_over_photo(canvas, x, y + caption_size + 8, size, p.input, map, ColourScale::of(map.values));
}

/// The strongest, large, and what its numbers mean.
void draw_strongest(Canvas& canvas, int x, int y, int size, const FeaturePicture& p, const Strength& s) {
  const FeatureMap map = FeatureMap::of(p.maps, s.map);
  const ColourScale scale = ColourScale::of(map.values);
  const std::string name = detail::concat('#', s.map);
  canvas.text(x, y, name, text_size, accent);
  const char* const answers = scale.negative ? "above 0 at " : p.filters.defined() ? "fits at " : "answers at ";
  const std::string average = ", on average " + number_of(s.mean);
  const int left = x + Canvas::text_width(name, text_size) + 10, room = x + size - left;
  std::string words = answers + places_of(s) + average;
  if (Canvas::text_width(words, text_size) > room) words = answers + share_of(s) + average;
  canvas.text(left, y, Canvas::shortened(words, text_size, room), text_size, ink);
  draw_over_photo(canvas, x, y + heading_height, size, p.input, map, scale);
}

/// In the width of the photograph: smaller if it is long, and without its middle if it is very long.
void draw_title(Canvas& canvas, int x, int y, const std::string& title, int width) {
  const int size = Canvas::text_width(title, title_size) <= width ? title_size : text_size;
  canvas.text(x, y + title_size - size, Canvas::shortened(title, size, width), size, ink);
}

/// The maps that are drawn, by number: the strongest where they are too many.
std::vector<int> drawn_maps(const Tensor& maps) {
  std::vector<int> numbers;
  for (const Strength& s : strongest(maps, max_drawn_maps)) numbers.push_back(s.map);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

Image draw(const FeaturePicture& p) {
  const int total = extent(p.maps, 1), height = extent(p.maps, 2), width = extent(p.maps, 3);
  const std::vector<int> drawn = drawn_maps(p.maps);
  const int count = static_cast<int>(drawn.size()), larger = std::max(width, height);
  const int out_width = drawn_size(width, larger, count), out_height = drawn_size(height, larger, count);
  const Grid maps(count, std::max(out_width, 24) + gap, out_height + number_height + gap);
  const FilterGrid filters(p.filters, count, total);

  const int top = margin + title_size + 20;
  const int photo_height = drawn_sides(p.input, left_width).height;
  const int over_top = top + photo_height + 28, filters_top = over_top + heading_height + photo_height + 28;
  const int right = margin + left_width + between;
  const int right_width = std::max(maps.width() - gap, left_width);
  const int scale_top = top + maps.height() + 14, shown_top = scale_top + 12 + 8 + caption_size + 28;
  const std::vector<Strength> best = strongest(p.maps, 1 + (right_width + shown_gap) / (shown_size + shown_gap));
  std::vector<bool> marked(static_cast<std::size_t>(total));
  for (const Strength& s : best) marked[static_cast<std::size_t>(s.map)] = true;
  const int left_bottom = filters_top + (filters.shown ? heading_height + filters.grid.height() : -28);
  const int right_bottom = shown_top + (best.size() > 1 ? heading_height + shown_height : -28);
  Canvas canvas(right + right_width + margin, std::max(left_bottom, right_bottom) + margin, background);

  draw_title(canvas, margin, margin, p.title, left_width);
  canvas.text(right, margin + title_size - text_size, Canvas::shortened(p.subtitle, text_size, right_width), text_size,
              ink);
  draw_photo(canvas, margin, top, left_width, p.input);
  draw_strongest(canvas, margin, over_top, left_width, p, best[0]);
  if (filters.shown) {
    const std::string heading =
        detail::concat(extent(p.filters, 0), " filters, ", extent(p.filters, 2), "×", extent(p.filters, 3));
    canvas.text(margin, filters_top, heading, text_size, ink);
    filters.draw(canvas, margin, filters_top + heading_height, p, drawn, marked);
  }

  const ColourScale scale = ColourScale::of(p.maps);
  if (best.size() > 1) canvas.text(right, shown_top, "The next strongest, over the photograph", text_size, ink);
  for (std::size_t i = 1; i < best.size(); ++i) {
    draw_shown(canvas, right + static_cast<int>(i - 1) * (shown_size + shown_gap), shown_top + heading_height,
               shown_size, p, best[i]);
  }

  for (int i = 0; i < count; ++i) {
    const int x = right + maps.x(i), y = top + maps.y(i), map = drawn[static_cast<std::size_t>(i)];
    const bool mark = marked[static_cast<std::size_t>(map)];
    canvas.text(x, y + 2, std::to_string(map), number_size, mark ? accent : faint);
    if (mark) draw_frame(canvas, x, y + number_height, out_width, out_height);
    draw_map(canvas, x, y + number_height, out_width, out_height, FeatureMap::of(p.maps, map), scale);
  }
  draw_scale(canvas, right, scale_top, left_width, scale);
  const std::string key =
      detail::concat("the ", best.size(), " strongest by mean: how well the photograph fits, over all places");
  const int key_width = Canvas::text_width(key, caption_size);
  if (left_width + 60 + key_width < right_width) {
    const int key_x = right + right_width - key_width;
    draw_frame(canvas, key_x - 20, scale_top + 1, 10, 10);
    canvas.fill(key_x - 20, scale_top + 1, 10, 10, background);
    canvas.text(key_x, scale_top + 1, key, caption_size, faint);
  }
  return canvas.image();
}

namespace {

// The photograph, its strongest map over it as large, and the next two below each other.
constexpr int card_size = 300, card_gap = 16, card_small = 2;
constexpr int card_title = text_size + 12, card_caption = caption_size + 8;
constexpr int small_size = (card_size + card_caption - card_gap) / card_small - card_caption;
constexpr int card_width = 2 * (card_size + card_gap) + small_size;

}  // namespace

Image draw_card(const FeaturePicture& p) {
  Canvas canvas(card_width, card_title + card_caption + card_size, background);
  canvas.text(0, 2, Canvas::shortened(p.title, text_size, card_width), text_size, ink);
  draw_photo(canvas, 0, card_title + card_caption, card_size, p.input);
  const std::vector<Strength> best = strongest(p.maps, 1 + card_small);
  draw_shown(canvas, card_size + card_gap, card_title, card_size, p, best[0]);
  for (std::size_t i = 1; i < best.size(); ++i) {
    const int down = static_cast<int>(i - 1) * (small_size + card_caption + card_gap);
    draw_shown(canvas, 2 * (card_size + card_gap), card_title + down, small_size, p, best[i]);
  }
  return canvas.image();
}

Image draw_sheet(std::string_view title, std::span<const Image> cards) {
  const int count = static_cast<int>(cards.size());
  const int columns = count > 3 ? 2 : 1, rows = (count + columns - 1) / columns;
  const int width = cards.empty() ? card_width : cards[0].width, height = cards.empty() ? 0 : cards[0].height;
  const int top = margin + title_size + 24, step = height + 24;
  const int whole_width = columns * width + (columns - 1) * between;
  Canvas canvas(2 * margin + whole_width, top + rows * step - 24 + margin, background);
  draw_title(canvas, margin, margin, std::string(title), whole_width);
  for (int i = 0; i < count; ++i) {  // downwards, as names are read in a list
    canvas.picture(margin + i / rows * (width + between), top + i % rows * step, cards[static_cast<std::size_t>(i)]);
  }
  return canvas.image();
}

}  // namespace lamina::app
