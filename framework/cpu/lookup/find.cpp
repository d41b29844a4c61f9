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

/// What lies along one dimension of a box: bins of so many samples each.
struct Side {
  float begin, bin, grid;
  std::int64_t extent;

  Side(float from, float to, const RoiAlign& how, std::int64_t bins, std::int64_t pixels) : extent(pixels) {
    const float offset = how.half_pixel ? 0.5F : 0.0F;
    begin = from * how.spatial_scale - offset;
    const float length = to * how.spatial_scale - offset - begin;
    bin = (how.half_pixel ? length : std::max(length, 1.0F)) / static_cast<float>(bins);
    grid = how.sampling_ratio > 0 ? static_cast<float>(how.sampling_ratio) : std::ceil(bin);
    grid = grid > 0 && std::isfinite(begin) && std::isfinite(bin) ? std::min(grid, 1e9F)
                                                                  : 0;  // of what is no number there are none
  }
  /// Calls use(low, high, how much of high) for the samples of a bin that are inside, and says how many those are.
  template <class Use>
  float each(std::int64_t number, const Use& use) const {
    const float first = begin + static_cast<float>(number) * bin;
    double i = 0, end = grid;
    if (grid > 1000) {  // of a box much larger than the picture nobody waits for the samples that are outside
      i = std::max(std::floor((-1.0 - first) / bin * grid) - 2, 0.0);
      end = std::min(end, (static_cast<double>(extent) - first) / bin * grid + 2);
    }
    float inside = 0;
    for (; i < end; ++i) {
      float at = first + (static_cast<float>(i) + 0.5F) * bin / grid;
      if (!(at >= -1 && at <= static_cast<float>(extent))) continue;
      at = std::max(at, 0.0F);
      const std::int64_t low = std::min(static_cast<std::int64_t>(at), extent - 1),
                         high = std::min(low + 1, extent - 1);
      use(low, high, low == high ? 0.0F : at - static_cast<float>(low));
      ++inside;
    }
    return inside;
  }
};

/// Some samples of a bin: the places of four pixels, and how much of each.
struct Samples {
  static constexpr int most = 32;
  int count = 0;
  std::int64_t place[most][4];
  float weight[most][4];
};

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

void RoiAlign::run(const Tensor& x, const Tensor& boxes, const Tensor& images, const Tensor& count, Tensor& output,
                   ThreadPool& pool) const {
  const Shape &from = x.shape(), &to = output.shape();
  const std::int64_t channels = from[1], row = from[3], plane = from[2] * row, bins = to[2] * to[3];
  pool.parallel_for(to[0], [&](std::int64_t r, int) {
    float* const out = static_cast<float*>(output.raw()) + r * channels * bins;
    std::fill_n(out, channels * bins, 0.0F);
    if (r >= static_cast<const std::int64_t*>(count.raw())[0]) return;
    const std::int64_t image = static_cast<const std::int64_t*>(images.raw())[r];
    if (image < 0 || image >= from[0]) detail::fail("box ", r, " is of image ", image, " of ", from[0]);
    const float* const in = static_cast<const float*>(x.raw()) + image * channels * plane;
    const float* const box = static_cast<const float*>(boxes.raw()) + 4 * r;
    const Side across(box[0], box[2], *this, to[3], row), down(box[1], box[3], *this, to[2], from[2]);
    const float all = std::max(across.grid * down.grid, 1.0F);
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      Samples some;
      bool begun = false;
      const auto add_up = [&] {
        for (std::int64_t c = 0; c < channels; ++c) {
          const float* const pixels = in + c * plane;
          float& result = out[c * bins + bin];
          for (int i = 0; i < some.count; ++i) {
            const auto part = [&](int corner) { return some.weight[i][corner] * pixels[some.place[i][corner]]; };
            if (max) {
              const float value = std::max({part(0), part(1), part(2), part(3)});
              result = begun || i > 0 ? std::max(result, value) : value;
            } else {
              result += part(0) + part(1) + part(2) + part(3);
            }
          }
        }
        begun = true, some.count = 0;
      };
      float inside = 0;
      down.each(bin / to[3], [&](std::int64_t y0, std::int64_t y1, float dy) {
        inside += across.each(bin % to[3], [&](std::int64_t x0, std::int64_t x1, float dx) {
          const int i = some.count++;
          const std::int64_t places[] = {y0 * row + x0, y0 * row + x1, y1 * row + x0, y1 * row + x1};
          const float weights[] = {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx};
          std::copy_n(places, 4, some.place[i]), std::copy_n(weights, 4, some.weight[i]);
          if (some.count == Samples::most) add_up();
        });
      });
      if (some.count > 0) add_up();
      for (std::int64_t c = 0; c < channels; ++c) {
        float& result = out[c * bins + bin];
        result = !max ? result / all : inside < across.grid * down.grid ? std::max(result, 0.0F) : result;
      }
    }
  });
}

}  // namespace lamina::cpu
