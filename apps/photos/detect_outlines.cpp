// Outlines of masks: along the edges of their pixels, then with fewer corners.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "photos/detect_report.h"

namespace lamina::app {
namespace {

struct Corner {
  int x, y;
};

/// A mask's pixels with none around them.
class Pixels {
 public:
  explicit Pixels(const Mask& mask) : width_(mask.width), height_(mask.height), pixels_(mask.pixels()) {}

  bool operator()(int x, int y) const {
    return x >= 0 && y >= 0 && x < width_ && y < height_ && (pixels_[at(x, y)] & 1) != 0;
  }
  /// Whether an outline begins at the left edge of this pixel: one that none has come by.
  bool begins(int x, int y) const { return (*this)(x, y) && !(*this)(x - 1, y) && (pixels_[at(x, y)] & 2) == 0; }
  void pass(int x, int y) { pixels_[at(x, y)] |= 2; }

 private:
  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }

  int width_, height_;
  std::vector<std::uint8_t> pixels_;
};

/// Walks from the lower end of the pixel's left edge, the mask on the right, until it is there again.
std::vector<Corner> walked(Pixels& pixels, int x, int y) {
  constexpr std::array<Corner, 4> ways = {Corner{0, -1}, {1, 0}, {0, 1}, {-1, 0}};  // up, right, down, left
  // The pixels before a corner, on the left and on the right of each way.
  constexpr std::array<Corner, 4> left = {Corner{-1, -1}, {0, -1}, {0, 0}, {-1, 0}};
  const Corner first{x, y + 1};
  std::vector<Corner> corners;
  Corner here = first;
  std::size_t way = 0;
  do {
    if (way == 0) pixels.pass(here.x, here.y - 1);
    here = {here.x + ways[way].x, here.y + ways[way].y};
    const Corner& l = left[way];
    const Corner& r = left[(way + 1) % 4];
    const std::size_t before = way;
    if (!pixels(here.x + r.x, here.y + r.y)) {
      way = (way + 1) % 4;
    } else if (pixels(here.x + l.x, here.y + l.y)) {
      way = (way + 3) % 4;
    }
    if (way != before) corners.push_back(here);
  } while (here.x != first.x || here.y != first.y || way != 0);
  return corners;
}

/// Twice the area; negative where a hole was walked around.
std::int64_t area_of(const std::vector<Corner>& corners) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Corner& a = corners[i];
    const Corner& b = corners[(i + 1) % corners.size()];
    sum += std::int64_t{a.x} * b.y - std::int64_t{b.x} * a.y;
  }
  return sum;
}

/// Leaves out corners that are no further than a pixel from the line without them (Douglas and Peucker, 1973).
Outline simplified(const std::vector<Corner>& corners) {
  const std::size_t count = corners.size();
  std::vector<bool> kept(count + 1, false);
  kept[0] = kept[count / 2] = kept[count] = true;
  std::vector<std::pair<std::size_t, std::size_t>> parts = {{0, count / 2}, {count / 2, count}};
  while (!parts.empty()) {
    const auto [begin, end] = parts.back();
    parts.pop_back();
    const Corner a = corners[begin], b = corners[end % count];
    const double dx = b.x - a.x, dy = b.y - a.y, length = std::hypot(dx, dy);
    double most = 1;
    std::size_t furthest = begin;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const double x = corners[i].x - a.x, y = corners[i].y - a.y;
      const double away = length > 0 ? std::abs(x * dy - y * dx) / length : std::hypot(x, y);
      if (away > most) most = away, furthest = i;
    }
    if (furthest == begin) continue;
    kept[furthest] = true;
    parts.emplace_back(begin, furthest);
    parts.emplace_back(furthest, end);
  }
  if (std::ranges::count(kept, true) < 4) std::fill(kept.begin(), kept.end(), true);  // too small to be simpler
  Outline outline;
  for (std::size_t i = 0; i < count; ++i) {
    if (!kept[i]) continue;
    outline.push_back(static_cast<float>(corners[i].x));
    outline.push_back(static_cast<float>(corners[i].y));
  }
  return outline;
}

}  // namespace

std::vector<Outline> outlines_of(const Mask& mask) {
  Pixels pixels(mask);
  std::vector<std::pair<std::int64_t, Outline>> parts;
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x) {
      if (!pixels.begins(x, y)) continue;
      const std::vector<Corner> corners = walked(pixels, x, y);
      if (const std::int64_t area = area_of(corners); area > 0) parts.emplace_back(area, simplified(corners));
    }
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &std::pair<std::int64_t, Outline>::first);
  std::vector<Outline> outlines;
  for (auto& [area, outline] : parts) outlines.push_back(std::move(outline));
  return outlines;
}

Outline as_one(const std::vector<Outline>& parts) {
  if (parts.size() == 1) return parts[0];
  Outline one;
  for (const Outline& part : parts) {  // each around and back to where it begins
    one.insert(one.end(), part.begin(), part.end());
    one.insert(one.end(), part.begin(), part.begin() + 2);
  }
  for (std::size_t i = parts.size(); i-- > 1;) one.insert(one.end(), parts[i - 1].begin(), parts[i - 1].begin() + 2);
  if (!one.empty()) one.resize(one.size() - 2);  // the first corner, which is joined to anyway
  return one;
}

}  // namespace lamina::app
