#include "pictures/segment_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lamina/base/text_table.h"
#include "pictures/style.h"

namespace lamina::app {
namespace {

using style::background;
using style::ink;

constexpr Color pale{140, 140, 150};

constexpr float overlay = 0.55f, outline = 0.95f, dimmed = 0.65f;
constexpr int small = 384;    // photographs smaller than half of it are drawn larger
constexpr int max_text = 24;  // heights of capitals that the longest name gets

void enlarge(SegmentPicture& p) {
  const int zoom = small / std::max(p.photo.width, p.photo.height);
  if (zoom < 2) return;
  p.photo.rgb = enlarged(p.photo.rgb, p.photo.width, p.photo.height, 3, zoom);
  p.map.classes = enlarged(p.map.classes, p.photo.width, p.photo.height, 1, zoom);
  p.photo.width = p.map.width = p.photo.width * zoom;
  p.photo.height = p.map.height = p.photo.height * zoom;
}

/// Whether a pixel within `thickness` of this one, along a row or a column, belongs to another class.
bool on_outline(const ClassMap& map, int x, int y, int thickness) {
  const auto at = [&](int column, int row) {
    return map.classes[static_cast<std::size_t>(row) * static_cast<std::size_t>(map.width) +
                       static_cast<std::size_t>(column)];
  };
  const std::uint16_t own = at(x, y);
  for (int d = 1; d <= thickness; ++d) {
    if (x >= d && at(x - d, y) != own) return true;
    if (x + d < map.width && at(x + d, y) != own) return true;
    if (y >= d && at(x, y - d) != own) return true;
    if (y + d < map.height && at(x, y + d) != own) return true;
  }
  return false;
}

/// Lays the colours over the photograph, which is grey under them: they are those of the legend then.
void tint(SegmentPicture& p, int thickness) {
  std::vector<Color> colors;  // of the classes, as far as they occur
  std::size_t i = 0;
  for (int y = 0; y < p.photo.height; ++y) {
    for (int x = 0; x < p.photo.width; ++x, ++i) {
      const std::uint16_t index = p.map.classes[i];
      if (p.background && index == 0) continue;
      std::uint8_t* pixel = p.photo.rgb.data() + i * 3;
      Color photo{};
      photo.fill(static_cast<std::uint8_t>(brightness({pixel[0], pixel[1], pixel[2]})));
      Color color{};
      if (index == ClassMap::unseen) {
        color = mixed(photo, background, dimmed);
      } else {
        while (colors.size() <= index) colors.push_back(class_color(static_cast<int>(colors.size())));
        color = mixed(photo, colors[index], on_outline(p.map, x, y, thickness) ? outline : overlay);
      }
      std::copy(color.begin(), color.end(), pixel);
    }
  }
}

std::string percent(double share) { return detail::format_fixed(100 * share, 1) + " %"; }

/// Boxes, names and shares in columns, beside a photograph.
class Legend {
 public:
  Legend(const SegmentPicture& p, int text_size) : picture_(p), size_(text_size) {
    int name_width = 0, share_width = 0;
    for (const Segment& s : p.segments) {
      name_width = std::max(name_width, Canvas::text_width(s.name, size_));
      share_width = std::max(share_width, Canvas::text_width(percent(s.share), size_));
    }
    name_width_ = std::min(name_width, max_text * size_);
    column_ = box() + gap() + name_width_ + 2 * gap() + share_width;
    // As high as the photograph where it can be: one column more costs less than a picture of another form.
    const int lines = static_cast<int>(p.segments.size()) + (p.footnote.empty() ? 0 : 1);
    rows_ = std::max(8, (p.photo.height + gap()) / row());
    columns_ = std::max(1, (lines + rows_ - 1) / rows_);
    rows_ = (lines + columns_ - 1) / columns_;
  }

  int width() const { return std::max(columns_ * column_ + (columns_ - 1) * 4 * gap(), footnote_width()); }
  int height() const { return std::max(0, rows_ * row() - gap()); }

  void draw(Canvas& canvas, int left, int top) const {
    int line = 0;
    for (const Segment& s : picture_.segments) {
      const int x = left + this->x(line), y = top + this->y(line), letters = y + (box() - size_) / 2;
      const bool plain = picture_.background && s.index == 0;
      const int edge = std::max(1, size_ / 10);
      canvas.fill(x, y, box(), box(), plain ? pale : class_color(s.index));
      if (plain) canvas.fill(x + edge, y + edge, box() - 2 * edge, box() - 2 * edge, background);
      canvas.text(x + box() + gap(), letters, Canvas::shortened(s.name, size_, name_width_), size_, ink);
      canvas.text(x + column_, letters, percent(s.share), size_, pale, Canvas::At::end);
      ++line;
    }
    canvas.text(left + x(line), top + y(line) + (box() - size_) / 2, picture_.footnote, size_, pale);
  }

 private:
  int box() const { return size_ * 8 / 5; }
  int gap() const { return size_ * 4 / 5; }
  int row() const { return box() + gap(); }
  int x(int line) const { return line / std::max(1, rows_) * (column_ + 4 * gap()); }
  int y(int line) const { return line % std::max(1, rows_) * row(); }
  int footnote_width() const {
    return Canvas::text_width(picture_.footnote, size_) + x(static_cast<int>(picture_.segments.size()));
  }

  const SegmentPicture& picture_;
  int size_, name_width_ = 0, column_ = 0, rows_ = 0, columns_ = 1;
};

}  // namespace

Color class_color(int index) {
  // Oklch (Ottosson 2020): steps of the golden angle keep hues apart however many there are, and three lightnesses
  // those whose hues come near each other.
  constexpr std::array<double, 3> lightness = {0.70, 0.82, 0.58};
  const double hue = 0.5 + index * std::numbers::pi * (3 - std::sqrt(5.0));
  const double light = lightness[static_cast<std::size_t>(index % 3)];
  double chroma = 0.20;
  for (;; chroma -= 0.01) {  // as colourful as a screen can show it
    const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
    const double l = std::pow(light + 0.3963377774 * a + 0.2158037573 * b, 3);
    const double m = std::pow(light - 0.1055613458 * a - 0.0638541728 * b, 3);
    const double s = std::pow(light - 0.0894841775 * a - 1.2914855480 * b, 3);
    const std::array<double, 3> linear = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                                          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                                          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
    const auto [least, most] = std::minmax_element(linear.begin(), linear.end());
    if (chroma > 0.02 && (*least < 0 || *most > 1)) continue;
    Color color{};
    for (std::size_t c = 0; c < 3; ++c) {
      const double value = std::clamp(linear[c], 0.0, 1.0);
      const double encoded = value <= 0.0031308 ? 12.92 * value : 1.055 * std::pow(value, 1 / 2.4) - 0.055;
      color[c] = static_cast<std::uint8_t>(std::lround(255 * encoded));
    }
    return color;
  }
}

Image draw(SegmentPicture p) {
  enlarge(p);
  const int width = p.photo.width, height = p.photo.height;
  // In proportion to the photograph, as the picture will be looked at as a whole.
  const double side = std::sqrt(static_cast<double>(width) * height);
  const int text_size = std::clamp(static_cast<int>(std::lround(side / 60)), 12, 160);
  const int title_size = text_size * 3 / 2, margin = 2 * text_size, top = 2 * margin + title_size;
  tint(p, std::max(1, text_size / 12));

  const Legend legend(p, text_size);
  const int right = margin + width + margin;
  Canvas canvas(right + legend.width() + margin, top + std::max(height, legend.height()) + margin, background);
  const int title_width = canvas.image().width - 2 * margin;
  canvas.text(margin, margin, Canvas::shortened(p.title, title_size, title_width), title_size, ink);
  canvas.picture(margin, top, p.photo);
  legend.draw(canvas, right, top);
  return canvas.image();
}

}  // namespace lamina::app
