#include "lamina/detect/parts.h"

#include <cmath>
#include <utility>

namespace lamina::detail {
namespace {

struct Between {
  int first = 0, second = 0;
  float part = 0;
  int end = 0;  // of the pixels that lie between these two

  float mix(const float* values) const { return (1 - part) * values[first] + part * values[second]; }
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
    for (std::size_t i = pixels.size(); i-- > 0;) {
      const bool last = i + 1 == pixels.size() || pixels[i + 1].first != pixels[i].first;
      pixels[i].end = last ? static_cast<int>(i) + 1 : pixels[i + 1].end;
    }
    count = pixels.back().second + 1;
  }
};

}  // namespace

Mask mask_of(const Head& head, const Answers& answers, std::span<const float> shares, const Box& box,
             const Letterbox& letterbox, const DetectOptions& options, std::atomic<std::int64_t>& runs) {
  const int height = head.mask_height, width = head.mask_width;
  const Side &across = letterbox.x, &down = letterbox.y;
  Mask mask{across.photo, down.photo, {static_cast<std::uint32_t>(across.photo * down.photo)}};
  const auto edge = [](float place, int most) {
    return static_cast<int>(std::clamp(std::ceil(place), 0.0f, static_cast<float>(most)));
  };
  const int left = edge(box.left, across.photo), right = edge(box.right, across.photo);
  const int top = edge(box.top, down.photo), bottom = edge(box.bottom, down.photo);
  if (left >= right || top >= bottom) return mask;
  // A plane's pixels are `stride` of the input's; enlarged until the padding is a whole number of them on either side.
  const int stride = std::max(1, across.input / width);
  int zoom = 1;
  for (const int margin : {across.input - across.inner, down.input - down.inner}) {
    while (zoom < stride && (margin * zoom % stride != 0 || margin / 2 * zoom % stride != 0)) zoom *= 2;
  }
  const Letterbox inner(across.photo, down.photo, zoom * width, zoom * height, across.stretched);
  const Axis x2(inner.x.inner, across.photo, left, right, inner.x.before);
  const Axis y2(inner.y.inner, down.photo, top, bottom, inner.y.before);
  const Axis x1(width, inner.x.input, x2.first, x2.first + x2.count);
  const Axis y1(height, inner.y.input, y2.first, y2.first + y2.count);
  std::vector<float> plane(static_cast<std::size_t>(x1.count) * static_cast<std::size_t>(y1.count));
  for (std::int64_t top_row = y1.first; const float share : shares) {
    float* sum = plane.data();
    for (int y = 0; y < y1.count && share != 0; ++y) {
      for (const float value : answers.prototypes.part(top_row + y, x1.first, x1.count)) *sum++ += share * value;
    }
    top_row += height;
  }
  // Both planes lie column by column from here on, as the runs of a mask do.
  std::vector<float> enlarged, column(static_cast<std::size_t>(y1.count));
  for (const Between& x : x1.pixels) {
    const float* row = plane.data();
    for (float& value : column) value = x.mix(row), row += x1.count;
    for (const Between& y : y1.pixels) enlarged.push_back(y.mix(column.data()));
  }
  mask.runs = {0};
  const auto add = [&](std::int64_t count, bool inside) {
    if (inside == (mask.runs.size() % 2 == 1)) mask.runs.push_back(0);  // the first run is of what is not
    mask.runs.back() += static_cast<std::uint32_t>(count);
  };
  std::int64_t gap = std::int64_t{left} * mask.height + top;  // before a column
  column.resize(static_cast<std::size_t>(y2.count));
  for (int x = left; x < right; ++x) {
    const std::size_t before = mask.runs.size();
    const Between& between = x2.pixels[static_cast<std::size_t>(x - left)];
    const float* here = enlarged.data() + std::ptrdiff_t{between.first} * y2.count;
    const float* next = enlarged.data() + std::ptrdiff_t{between.second} * y2.count;
    float* const value = column.data();
    for (int y = 0; y < y2.count; ++y) value[y] = (1 - between.part) * here[y] + between.part * next[y];
    add(std::exchange(gap, mask.height - (bottom - top)), false);
    for (int y = 0; y < bottom - top;) {
      const Between& two = y2.pixels.data()[y];
      const bool inside = value[two.first] > 0, same = inside == (value[two.second] > 0);
      const int stop = same ? two.end : y + 1;  // all that lies between two of a mind is of theirs
      add(stop - y, same ? inside : two.mix(value) > 0);
      y = stop;
    }
    heed_stop(options.stop, "detect");
    if ((runs -= static_cast<std::int64_t>(mask.runs.size() - before)) < 0) {
      fail("the masks are noise, more than ", most_runs,
           " runs of pixels: ask for a higher confidence or fewer things");
    }
  }
  add(std::int64_t{mask.width - right} * mask.height + mask.height - bottom, false);
  return mask;
}

}  // namespace lamina::detail

namespace lamina {

std::vector<std::uint8_t> Mask::pixels() const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  const auto w = static_cast<std::size_t>(width), h = static_cast<std::size_t>(height);
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::size_t end = at + runs[i]; at < end; ++at) result[at % h * w + at / h] = i % 2;
  }
  return result;
}

}  // namespace lamina
