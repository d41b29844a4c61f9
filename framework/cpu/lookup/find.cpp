#include "lamina/cpu/lookup/find.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

/// Which of two rows comes first, of NaN the largest: below 0, 0, above.
template <class T>
int compared(const T* a, const T* b, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    if (a[i] < b[i] || (b[i] != b[i] && a[i] == a[i])) return -1;
    if (b[i] < a[i] || (a[i] != a[i] && b[i] == b[i])) return 1;
  }
  return 0;
}

template <class T>
void find_unique(const T* rows, std::int64_t width, std::int64_t count, bool sorted, std::int64_t* found,
                 std::int64_t room, std::int64_t* order) {
  std::int64_t *const first = found + 1, *const which = first + room, *const times = which + room;
  std::iota(order, order + count, std::int64_t{0});
  std::sort(order, order + count, [&](std::int64_t a, std::int64_t b) {
    const int result = compared(rows + a * width, rows + b * width, width);
    return result < 0 || (result == 0 && a < b);
  });
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == 0 || compared(rows + order[i] * width, rows + order[i - 1] * width, width) != 0)
      first[found[0]++] = order[i];
    which[order[i]] = found[0] - 1;
    ++times[found[0] - 1];
  }
  if (sorted) return;
  std::int64_t next = 0;  // numbered anew, by where each is first
  for (std::int64_t i = 0; i < count; ++i) {
    if (first[which[i]] == i) order[which[i]] = next++;
  }
  std::fill_n(times, room, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = which[i] = order[which[i]];
    if (times[number]++ == 0) first[number] = i;
  }
}

}  // namespace

void find_true(const Tensor& x, Tensor& found) {
  std::int64_t* const list = emptied(found);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (static_cast<const std::uint8_t*>(x.raw())[i] != 0 && ++list[0] < found.numel()) list[list[0]] = i;
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
        if (3 * list[0] >= found.numel()) continue;
        result[0] = image, result[1] = c, result[2] = one.second;
      }
    }
  }
}

void find_unique(const Tensor& rows, const Tensor& count, bool sorted, Tensor& found, std::int64_t* workspace) {
  const std::int64_t width = rows.shape()[1], room = found.numel() / 3, all = count.values<std::int64_t>()[0];
  std::int64_t* const list = emptied(found);
  if (rows.dtype() == DType::f64)
    return find_unique(rows.values<double>().data(), width, all, sorted, list, room, workspace);
  find_unique(rows.values<std::int64_t>().data(), width, all, sorted, list, room, workspace);
}

}  // namespace lamina::cpu
