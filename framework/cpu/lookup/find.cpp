#include "lamina/cpu/lookup/find.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::cpu {
namespace {

/// A list that begins with its length: of nothing yet.
std::int64_t* emptied(Tensor& found) {
  std::fill_n(found.values<std::int64_t>().data(), found.numel(), std::int64_t{0});
  return found.values<std::int64_t>().data();
}

struct Box {
  float y0, x0, y1, x1;

  /// (y, x, y, x) of two corners, or (x, y, width, height) around the centre.
  Box(const float* b, bool centred) {
    if (centred) {
      x0 = b[0] - b[2] / 2, x1 = b[0] + b[2] / 2, y0 = b[1] - b[3] / 2, y1 = b[1] + b[3] / 2;
    } else {
      std::tie(y0, y1) = std::minmax(b[0], b[2]), std::tie(x0, x1) = std::minmax(b[1], b[3]);
    }
  }
  float area() const { return (x1 - x0) * (y1 - y0); }
  bool overlaps(const Box& other, double threshold) const {
    const float width = std::min(x1, other.x1) - std::max(x0, other.x0);
    const float height = std::min(y1, other.y1) - std::max(y0, other.y0);
    const float both = width * height, all = area() + other.area() - both;
    if (!(width > 0 && height > 0) || both <= 0 || area() <= 0 || other.area() <= 0 || all <= 0) return false;
    return both / all > static_cast<float>(threshold);
  }
};

/// The score, negative, and the box: in the order in which they are taken.
using Scored = std::pair<float, std::int64_t>;

}  // namespace

void find_true(const Tensor& x, Tensor& found) {
  std::int64_t* const list = emptied(found);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (static_cast<const std::uint8_t*>(x.raw())[i] != 0) list[++list[0]] = i;
  }
}

void suppress(const Tensor& boxes, const Tensor& scores, const Tensor& settings, bool centred, Tensor& found,
              std::byte* workspace) {
  std::int64_t* const list = emptied(found);
  const auto set = settings.values<double>();
  const std::int64_t classes = scores.shape()[1], all = boxes.shape()[1];
  if (!(set[1] >= 0 && set[1] <= 1)) detail::fail("expected an overlap of 0 to 1, got ", set[1]);
  auto* const candidates = reinterpret_cast<Scored*>(workspace);
  for (std::int64_t image = 0; image < boxes.shape()[0]; ++image) {
    const float* const of_image = static_cast<const float*>(boxes.raw()) + image * all * 4;
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* const score = static_cast<const float*>(scores.raw()) + (image * classes + c) * all;
      std::int64_t left = 0, kept = 0;
      for (std::int64_t i = 0; i < all; ++i) {
        // -Inf as the least score: there is none.
        if (score[i] > static_cast<float>(set[2]) || (std::isinf(set[2]) && score[i] == set[2]))
          candidates[left++] = {-score[i], i};
      }
      std::sort(candidates, candidates + left);
      // Those that stay move to the front, over those that were looked at.
      for (std::int64_t i = 0; i < left && static_cast<double>(kept) < set[0]; ++i) {
        const Scored one = candidates[i];
        const Box box(of_image + 4 * one.second, centred);
        const bool hidden = std::any_of(candidates, candidates + kept, [&](const Scored& other) {
          return box.overlaps(Box(of_image + 4 * other.second, centred), set[1]);
        });
        if (hidden) continue;
        candidates[kept++] = one;
        std::int64_t* const result = list + 1 + 3 * list[0]++;
        result[0] = image, result[1] = c, result[2] = one.second;
      }
    }
  }
}

}  // namespace lamina::cpu
