#include "lamina/detect/candidates.h"

#include <algorithm>
#include <cmath>

namespace lamina::detail {
namespace {

/// Of one pixel of a resized axis: which two it lies between.
struct Between {
  int first = 0, second = 0;
  float part = 0;
};

using Axis = std::vector<Between>;

/// Pixels [begin, end) of an axis of `in` pixels that is resized to `out`, `before` pixels into a longer one.
/// Half-pixel centres, as PyTorch's interpolate(align_corners=False).
Axis axis_of(int in, int out, int begin, int end, int before = 0) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  Axis axis;
  for (int i = begin; i < end; ++i) {
    const float place = std::max((static_cast<float>(i) + 0.5f) * scale - 0.5f, 0.0f);
    const int first = std::min(static_cast<int>(place), in - 1);
    const float part = std::clamp(place - static_cast<float>(first), 0.0f, 1.0f);
    axis.push_back({before + first, before + std::min(first + 1, in - 1), part});
  }
  return axis;
}

/// From here on the axis counts from the first pixel that it needs. Returns that one and how many there are.
std::pair<int, int> rebase(Axis& axis) {
  const int first = axis.front().first, count = axis.back().second - first + 1;
  for (Between& between : axis) between.first -= first, between.second -= first;
  return {first, count};
}

/// A plane of `width` columns, resized.
std::vector<float> resized(const std::vector<float>& plane, int width, const Axis& x, const Axis& y) {
  std::vector<float> result;
  result.reserve(x.size() * y.size());
  for (const Between& row : y) {
    const float* upper = plane.data() + std::ptrdiff_t{row.first} * width;
    const float* lower = plane.data() + std::ptrdiff_t{row.second} * width;
    for (const Between& column : x) {
      const auto mixed = [&](const float* line) {
        return (1 - column.part) * line[column.first] + column.part * line[column.second];
      };
      result.push_back((1 - row.part) * mixed(upper) + row.part * mixed(lower));
    }
  }
  return result;
}

}  // namespace

Mask mask_of(const Prototypes& prototypes, std::span<const float> shares, const Box& box, const Letterbox& letterbox) {
  Mask mask{letterbox.photo_width, letterbox.photo_height, {}};
  const auto side = [](float from, float to, int most) {
    return std::pair(static_cast<int>(std::clamp(std::ceil(from), 0.0f, static_cast<float>(most))),
                     static_cast<int>(std::clamp(std::ceil(to), 0.0f, static_cast<float>(most))));
  };
  const auto [left, right] = side(box.left, box.right, mask.width);
  const auto [top, bottom] = side(box.top, box.bottom, mask.height);
  mask.runs = {static_cast<std::uint32_t>(mask.width) * static_cast<std::uint32_t>(mask.height)};
  if (left >= right || top >= bottom) return mask;
  // A plane's pixels are `across` of the input's; enlarged until the padding is a whole number of them on either side.
  const int across = std::max(1, letterbox.width / prototypes.width);
  const auto uneven = [&](int zoom) {
    const auto cuts = [&](int margin) { return margin * zoom % across != 0 || margin / 2 * zoom % across != 0; };
    return cuts(letterbox.width - letterbox.inner_width) || cuts(letterbox.height - letterbox.inner_height);
  };
  int zoom = 1;
  while (zoom < across && uneven(zoom)) zoom *= 2;
  const Letterbox inner(mask.width, mask.height, zoom * prototypes.width, zoom * prototypes.height,
                        letterbox.stretched);
  Axis x2 = axis_of(inner.inner_width, mask.width, left, right, inner.left);
  Axis y2 = axis_of(inner.inner_height, mask.height, top, bottom, inner.top);
  const auto [x1_first, x1_count] = rebase(x2);
  const auto [y1_first, y1_count] = rebase(y2);
  Axis x1 = axis_of(prototypes.width, inner.width, x1_first, x1_first + x1_count);
  Axis y1 = axis_of(prototypes.height, inner.height, y1_first, y1_first + y1_count);
  const auto [x0_first, x0_count] = rebase(x1);
  const auto [y0_first, y0_count] = rebase(y1);
  std::vector<float> plane(static_cast<std::size_t>(x0_count) * static_cast<std::size_t>(y0_count));
  for (int p = 0; p < prototypes.count; ++p) {
    float* sum = plane.data();
    for (int y = y0_first; y < y0_first + y0_count; ++y) {
      const float* row = prototypes.data + (std::ptrdiff_t{p} * prototypes.height + y) * prototypes.width + x0_first;
      for (int x = 0; x < x0_count; ++x) *sum++ += shares[static_cast<std::size_t>(p)] * row[x];
    }
  }
  const std::vector<float> values = resized(resized(plane, x0_count, x1, y1), x1_count, x2, y2);
  std::int64_t end = 0;  // of the run of ones that came last
  mask.runs.clear();
  for (int x = left; x < right; ++x) {
    for (int y = top; y < bottom; ++y) {
      if (!(values[static_cast<std::size_t>(y - top) * x2.size() + static_cast<std::size_t>(x - left)] > 0)) continue;
      const std::int64_t at = std::int64_t{x} * mask.height + y;
      if (mask.runs.empty() || at != end) {
        mask.runs.push_back(static_cast<std::uint32_t>(at - end));
        mask.runs.push_back(0);
      }
      ++mask.runs.back();
      end = at + 1;
    }
  }
  mask.runs.push_back(static_cast<std::uint32_t>(std::int64_t{mask.width} * mask.height - end));
  return mask;
}

}  // namespace lamina::detail

namespace lamina {

std::vector<std::uint8_t> Mask::pixels() const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::uint32_t k = 0; k < runs[i]; ++k, ++at) {
      const auto h = static_cast<std::size_t>(height);
      if (i % 2 == 1) result[at % h * static_cast<std::size_t>(width) + at / h] = 1;
    }
  }
  return result;
}

std::int64_t Mask::area() const {
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < runs.size(); i += 2) sum += runs[i];
  return sum;
}

}  // namespace lamina
