#include "pictures/detect_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "lamina/base/text_table.h"
#include "pictures/canvas.h"
#include "pictures/segment_picture.h"
#include "pictures/style.h"

namespace lamina::app {
namespace {

constexpr float mask_tint = 0.5f;
constexpr float sure_point = 0.5f;     // points that score less are not drawn
constexpr double labels_share = 0.12;  // of a picture, that labels may cover
constexpr std::size_t few = 8;         // labels are drawn in any case
constexpr int least_side = 480;        // of a photograph that is drawn as large as it is

constexpr std::pair<int, int> bones[] = {{0, 1},  {0, 2},   {1, 3},   {2, 4},   {3, 5},   {4, 6},
                                         {5, 6},  {5, 7},   {7, 9},   {6, 8},   {8, 10},  {5, 11},
                                         {6, 12}, {11, 12}, {11, 13}, {13, 15}, {12, 14}, {14, 16}};

/// Lays the colour of a mask over the photograph.
void tint(Image& photo, const Mask& mask, Color color) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    const std::int64_t end = at + mask.runs[i];
    for (; at < end; ++at) {
      if (i % 2 == 0) continue;
      const int x = static_cast<int>(at / mask.height), y = static_cast<int>(at % mask.height);
      std::ranges::copy(mixed(pixel_of(photo, x, y), color, mask_tint),
                        photo.rgb.begin() + (std::ptrdiff_t{y} * photo.width + x) * 3);
    }
  }
}

class Drawing {
 public:
  Drawing(Canvas& canvas, float zoom) : canvas_(canvas), zoom_(zoom) {
    const double side = std::sqrt(static_cast<double>(canvas.image().width) * canvas.image().height);
    text_ = std::clamp(static_cast<int>(std::lround(side / 60)), 10, 160);
    pen_ = std::max(2.0f, static_cast<float>(text_) / 5);
  }

  void outline(const Detection& thing, Color color) {
    std::vector<float> c{thing.box.left,  thing.box.top,    thing.box.right, thing.box.top,
                         thing.box.right, thing.box.bottom, thing.box.left,  thing.box.bottom};
    if (thing.turned) c = thing.turned->corners();
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t next = (i + 1) % 4;
      canvas_.line(zoom_ * c[2 * i], zoom_ * c[2 * i + 1], zoom_ * c[2 * next], zoom_ * c[2 * next + 1], pen_, color);
    }
  }

  void skeleton(const std::vector<Keypoint>& points, Color color) {
    const auto seen = [&](int i) { return points[static_cast<std::size_t>(i)].score >= sure_point; };
    for (const auto& [from, to] : bones_of(points)) {
      if (!seen(from) || !seen(to)) continue;
      const Keypoint &a = points[static_cast<std::size_t>(from)], &b = points[static_cast<std::size_t>(to)];
      canvas_.line(zoom_ * a.x, zoom_ * a.y, zoom_ * b.x, zoom_ * b.y, pen_, color);
    }
    for (const Keypoint& p : points) {
      if (p.score < sure_point) continue;
      canvas_.line(zoom_ * p.x, zoom_ * p.y, zoom_ * p.x, zoom_ * p.y, 3 * pen_, style::background);
      canvas_.line(zoom_ * p.x, zoom_ * p.y, zoom_ * p.x, zoom_ * p.y, 2 * pen_, color);
    }
  }

  /// None where there are so many that labels would hide the picture; they come best first.
  void label(const Box& box, const std::string& name, float score, Color color) {
    const int margin = text_ / 2, room = canvas_.image().width - 2 * margin;
    const std::string number = ' ' + detail::format_fixed(score, 2);
    const std::string text = Canvas::shortened(name, text_, room - Canvas::text_width(number, text_)) + number;
    const int width = Canvas::text_width(text, text_) + 2 * margin, height = text_ + 2 * margin;
    const double area = static_cast<double>(width) * height;
    if (labels_.size() >= few && covered_ + area > labels_share * canvas_.image().width * canvas_.image().height)
      return;
    covered_ += area;
    const int most_left = std::max(0, canvas_.image().width - width);
    const int left = std::clamp(pixel_at(zoom_ * box.left - pen_ / 2), 0, most_left);
    labels_.push_back({left, free_place(box, left, width, height), width, height, text, color});
  }

  /// The first on top.
  void draw_labels() {
    for (auto l = labels_.rbegin(); l != labels_.rend(); ++l) {
      canvas_.fill(l->left, l->top, l->width, l->height, l->color);
      canvas_.text(l->left + text_ / 2, l->top + text_ / 2, l->text, text_,
                   brightness(l->color) > 125 ? style::background : style::ink);
    }
  }

 private:
  struct Label {
    int left, top, width, height;
    std::string text;
    Color color;
  };

  /// Above the box, else at its top, below it or at its bottom, else further down or up: where the picture is and
  /// none of the labels before. Where all are taken, as if none were.
  int free_place(const Box& box, int left, int width, int height) const {
    const int above = pixel_at(zoom_ * box.top - pen_ / 2) - height, top = std::max(0, pixel_at(zoom_ * box.top));
    const int below = pixel_at(zoom_ * box.bottom + pen_ / 2);
    std::vector<int> places = {above, top, below, below - height};
    for (int row = 1; row < 8; ++row) places.insert(places.end(), {top + row * height, above - row * height});
    const auto is_free = [&](int place) {
      return place >= 0 && place + height <= canvas_.image().height &&
             std::ranges::none_of(labels_, [&](const Label& l) {
               return l.left < left + width && left < l.left + l.width && l.top < place + height &&
                      place < l.top + l.height;
             });
    };
    const auto found = std::ranges::find_if(places, is_free);
    return found != places.end() ? *found : above >= 0 ? above : top;
  }

  Canvas& canvas_;
  float zoom_, pen_ = 2;
  int text_ = 10;
  double covered_ = 0;  // pixels, by labels
  std::vector<Label> labels_;
};

}  // namespace

std::span<const std::pair<int, int>> bones_of(std::span<const Keypoint> points) {
  if (points.size() != 17) return {};
  return bones;
}

Image draw(DetectPicture p) {
  for (auto thing = p.found.rbegin(); thing != p.found.rend(); ++thing) {
    if (thing->mask) tint(p.photo, *thing->mask, class_color(thing->label));
  }
  const int zoom = std::max(1, least_side / std::max(p.photo.width, p.photo.height));
  if (zoom > 1) p.photo.rgb = enlarged(p.photo.rgb, p.photo.width, p.photo.height, 3, zoom);
  p.photo.width *= zoom, p.photo.height *= zoom;
  Canvas canvas(p.photo.width, p.photo.height, style::background);
  canvas.picture(0, 0, p.photo);
  Drawing drawing(canvas, static_cast<float>(zoom));
  for (auto thing = p.found.rbegin(); thing != p.found.rend(); ++thing) {
    drawing.outline(*thing, class_color(thing->label));
    drawing.skeleton(thing->points, class_color(thing->label));
  }
  for (std::size_t i = 0; i < p.found.size(); ++i) {
    drawing.label(p.found[i].box, p.names[i], p.found[i].score, class_color(p.found[i].label));
  }
  drawing.draw_labels();
  return canvas.image();
}

}  // namespace lamina::app
