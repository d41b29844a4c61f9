#include "lamina/detect/parts.h"

#include <algorithm>
#include <cmath>

namespace lamina::detail {
namespace {

struct Between {
  int first = 0, second = 0;
  float part = 0;
};

/// An axis that is resized: of each pixel that is wanted, which two it lies between.
struct Axis {
  std::vector<Between> pixels;
  int first = 0, count = 0;  // those that it needs; `pixels` counts from the first

  /// Pixels [begin, end) of `in` that become `out`, `before` into a longer axis. Half-pixel centres, as PyTorch's
  /// interpolate(align_corners=False).
  Axis(int in, int out, int begin, int end, int before = 0) {
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    for (int i = begin; i < end; ++i) {
      const float place = std::max((static_cast<float>(i) + 0.5f) * scale - 0.5f, 0.0f);
      const int low = std::min(static_cast<int>(place), in - 1);
      const float part = std::clamp(place - static_cast<float>(low), 0.0f, 1.0f);
      if (i == begin) first = before + low;
      pixels.push_back({before + low - first, before + std::min(low + 1, in - 1) - first, part});
    }
    count = pixels.back().second + 1;
  }
};

/// What the axes need of a plane, resized.
std::vector<float> resized(const std::vector<float>& plane, const Axis& x, const Axis& y) {
  std::vector<float> result;
  for (const Between& row : y.pixels) {
    const float* upper = plane.data() + std::ptrdiff_t{row.first} * x.count;
    const float* lower = plane.data() + std::ptrdiff_t{row.second} * x.count;
    for (const Between& column : x.pixels) {
      const auto mixed = [&](const float* line) {
        return (1 - column.part) * line[column.first] + column.part * line[column.second];
      };
      result.push_back((1 - row.part) * mixed(upper) + row.part * mixed(lower));
    }
  }
  return result;
}

}  // namespace

Mask mask_of(const Tensor& prototypes, std::span<const float> shares, const Box& box, const Letterbox& letterbox) {
  const int plane_height = static_cast<int>(prototypes.shape()[2]),
            plane_width = static_cast<int>(prototypes.shape()[3]);
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
  const int across = std::max(1, letterbox.width / plane_width);
  const auto uneven = [&](int zoom) {
    const auto cuts = [&](int margin) { return margin * zoom % across != 0 || margin / 2 * zoom % across != 0; };
    return cuts(letterbox.width - letterbox.inner_width) || cuts(letterbox.height - letterbox.inner_height);
  };
  int zoom = 1;
  while (zoom < across && uneven(zoom)) zoom *= 2;
  const Letterbox inner(mask.width, mask.height, zoom * plane_width, zoom * plane_height, letterbox.stretched);
  const Axis x2(inner.inner_width, mask.width, left, right, inner.left);
  const Axis y2(inner.inner_height, mask.height, top, bottom, inner.top);
  const Axis x1(plane_width, inner.width, x2.first, x2.first + x2.count);
  const Axis y1(plane_height, inner.height, y2.first, y2.first + y2.count);
  std::vector<float> plane(static_cast<std::size_t>(x1.count) * static_cast<std::size_t>(y1.count));
  const float* from = prototypes.values<float>().data();
  for (const float share : shares) {
    float* sum = plane.data();
    for (int y = y1.first; y < y1.first + y1.count; ++y) {
      const float* row = from + std::ptrdiff_t{y} * plane_width + x1.first;
      for (int x = 0; x < x1.count; ++x) *sum++ += share * row[x];
    }
    from += std::ptrdiff_t{plane_height} * plane_width;
  }
  const std::vector<float> values = resized(resized(plane, x1, y1), x2, y2);
  std::int64_t end = 0;  // of the run of ones that came last
  mask.runs.clear();
  for (int x = left; x < right; ++x) {
    for (int y = top; y < bottom; ++y) {
      if (!(values[static_cast<std::size_t>((y - top) * std::int64_t{right - left} + x - left)] > 0)) continue;
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
