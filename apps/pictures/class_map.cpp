#include "pictures/class_map.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"

namespace lamina::app {
namespace {

/// Where the pixels of one axis of a photograph lie among the scores.
struct Axis {
  struct Tap {
    std::int32_t low, high;     // the scores at both sides
    float low_part, high_part;  // of them
  };

  std::vector<Tap> taps;  // of pixels [first, first + taps.size())
  int first = 0;

  Axis(Seen seen, int pixels, std::int64_t scores) {
    // A pixel is seen if its centre is, and one is in any case.
    const auto edge = [&](double at) { return static_cast<int>(std::clamp<double>(std::round(at), 0, pixels)); };
    first = std::min(edge(seen.begin), pixels - 1);
    const int last = std::max(first + 1, edge(seen.begin + seen.extent));
    const auto count = static_cast<double>(scores);
    for (int pixel = first; pixel < last; ++pixel) {
      const double at =
          std::clamp((pixel + 0.5 - seen.begin) * (count / seen.extent) - 0.5, 0.0, std::max(0.0, count - 1));
      const double low = std::floor(at), part = at - low;
      const auto near = static_cast<std::int32_t>(low);
      // Half of one score and half of it again: 0 times an infinite neighbour would be NaN.
      taps.push_back(part == 0 ? Tap{near, near, 0.5f, 0.5f}
                               : Tap{near, near + 1, static_cast<float>(1 - part), static_cast<float>(part)});
    }
  }
};

/// What one thread needs for a row.
struct Scratch {
  std::vector<float> scores;  // of one class, between two rows of the scores
  std::vector<float> best;    // of the classes so far, for each pixel of the row
};

/// Pixels of one row, class after class: both loops are over neighbours in memory.
void classify_row(const float* scores, std::int64_t classes, std::int64_t height, std::int64_t width, const Axis& x,
                  const Axis::Tap& row, Scratch& scratch, std::uint16_t* out) {
  const std::size_t pixels = x.taps.size();
  float* between = scratch.scores.data();
  float* best = scratch.best.data();
  for (std::int64_t c = 0; c < classes; ++c) {
    const float* above = scores + (c * height + row.low) * width;
    const float* below = scores + (c * height + row.high) * width;
    for (std::int64_t i = 0; i < width; ++i) between[i] = row.low_part * above[i] + row.high_part * below[i];
    for (std::size_t i = 0; i < pixels; ++i) {
      const Axis::Tap& tap = x.taps[i];
      const float score = tap.low_part * between[tap.low] + tap.high_part * between[tap.high];
      const bool better = c == 0 || score > best[i] || std::isnan(best[i]);
      best[i] = better ? score : best[i];
      out[i] = better ? static_cast<std::uint16_t>(c) : out[i];
    }
  }
  if (std::any_of(best, best + pixels, [](float score) { return std::isnan(score); })) {
    detail::fail("the model's scores are not numbers (NaN)");
  }
}

}  // namespace

std::vector<std::int64_t> ClassMap::counts(std::int64_t classes_in_all) const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(classes_in_all));
  for (const std::uint16_t index : classes) {
    if (index != unseen) ++result.at(index);
  }
  return result;
}

ClassMap class_map(const Tensor& scores, Seen x, Seen y, int width, int height, ThreadPool& threads) {
  const Shape& shape = scores.shape();
  const Axis columns(x, width, shape[3]), rows(y, height, shape[2]);
  const auto stride = static_cast<std::size_t>(width);
  ClassMap map{width, height, {}};
  map.classes.assign(stride * static_cast<std::size_t>(height), ClassMap::unseen);
  std::vector<Scratch> scratch(static_cast<std::size_t>(threads.threads()));
  for (Scratch& s : scratch) {
    s.scores.resize(static_cast<std::size_t>(shape[3]));
    s.best.resize(columns.taps.size());
  }
  const float* values = scores.values<float>().data();
  threads.parallel_for(static_cast<std::int64_t>(rows.taps.size()), [&](std::int64_t i, int worker) {
    const std::size_t row = static_cast<std::size_t>(rows.first) + static_cast<std::size_t>(i);
    classify_row(values, shape[1], shape[2], shape[3], columns, rows.taps[static_cast<std::size_t>(i)],
                 scratch[static_cast<std::size_t>(worker)],
                 map.classes.data() + row * stride + static_cast<std::size_t>(columns.first));
  });
  return map;
}

}  // namespace lamina::app
