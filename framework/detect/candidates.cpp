#include "lamina/detect/candidates.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

/// The best class of each box and its score.
struct Best {
  std::vector<float> score;
  std::vector<int> label;
  bool nan = false;

  explicit Best(const Answer& answer) : score(static_cast<std::size_t>(answer.head.boxes), -1), label(score.size()) {
    const Head& head = answer.head;
    const bool columns = head.layout.columns;
    const std::int64_t step = columns ? 1 : head.values, first = head.layout.objectness ? 5 : 4;
    // By pointers: a class after the other, whose boxes lie side by side in the layout that has thousands.
    float* const scores = score.data();
    int* const labels = label.data();
    int bad = 0;
    for (int c = 0; c < head.classes; ++c) {
      const float* value = answer.data + (first + c) * (columns ? head.boxes : 1);
      for (std::int64_t i = 0; i < head.boxes; ++i) {
        const float one = value[i * step] * (head.layout.objectness ? answer.data[i * step + 4] : 1);
        const bool more = one > scores[i];
        bad |= one != one ? 1 : 0;
        scores[i] = more ? one : scores[i];
        labels[i] = more ? c : labels[i];
      }
    }
    nan = bad != 0;
  }
};

/// What of a turned box its overlap with others is a function of.
struct Gaussian {
  float x, y, a, b, c;

  Gaussian(const Candidate& box, float offset) : x(box.a + offset), y(box.b + offset) {
    const float across = box.c * box.c / 12, down = box.d * box.d / 12;
    const float cos = std::cos(box.angle), sin = std::sin(box.angle);
    a = across * (cos * cos) + down * (sin * sin);
    b = across * (sin * sin) + down * (cos * cos);
    c = (across - down) * cos * sin;
  }
  float determinant() const { return std::max(a * b - c * c, 0.0f); }
};

float overlap(const Gaussian& p, const Gaussian& q) {
  constexpr float tiny = 1e-7f;
  const float a = p.a + q.a, b = p.b + q.b, c = p.c + q.c, x = p.x - q.x, y = p.y - q.y;
  const float determinant = a * b - c * c;
  // Bhattacharyya's distance between the two, and Hellinger's of that.
  const float means =
      (a * (y * y) + b * (x * x)) / (determinant + tiny) * 0.25f + c * -x * y / (determinant + tiny) * 0.5f;
  const float spreads = std::log(determinant / (4 * std::sqrt(p.determinant() * q.determinant()) + tiny) + tiny) * 0.5f;
  const float distance = std::clamp(means + spreads, tiny, 100.0f);
  return 1 - std::sqrt(1 - std::exp(-distance) + tiny);
}

struct Corners {
  float left, top, right, bottom, area;

  Corners(const Candidate& box, float offset)
      : left(box.a + offset), top(box.b + offset), right(box.c + offset), bottom(box.d + offset) {
    area = (right - left) * (bottom - top);
  }
};

float overlap(const Corners& p, const Corners& q) {
  const float width = std::max(0.0f, std::min(p.right, q.right) - std::max(p.left, q.left));
  const float height = std::max(0.0f, std::min(p.bottom, q.bottom) - std::max(p.top, q.top));
  const float common = width * height;
  return common / (p.area + q.area - common);
}

/// `Shape` is what a box's overlap is a function of. `all`: whether those that were left out keep others out too.
template <class Outline>
std::vector<Candidate> kept(const std::vector<Candidate>& candidates, double iou, bool across, std::size_t most,
                            bool all) {
  constexpr float apart = 7680;  // classes are: boxes of two never meet. In f32, whose rounding decides about ties
  std::vector<Candidate> result;
  std::vector<Outline> rivals;
  for (const Candidate& candidate : candidates) {
    if (result.size() == most) break;
    const Outline outline(candidate, across ? 0 : static_cast<float>(candidate.label) * apart);
    const bool clear = std::ranges::none_of(rivals, [&](const Outline& r) { return overlap(r, outline) > iou; });
    if (clear) result.push_back(candidate);
    if (clear || all) rivals.push_back(outline);
  }
  return result;
}

}  // namespace

std::vector<Candidate> candidates_of(const Answer& answer, const DetectOptions& options, int width, int height) {
  const auto confidence = static_cast<float>(options.confidence);
  const std::vector<int>& classes = options.classes;
  const Head& head = answer.head;
  const bool upright = head.task != Task::obb;
  const Best best(answer);
  std::vector<Candidate> result;
  std::int64_t bad = best.nan ? 1 : 0;
  for (std::int64_t i = 0; i < head.boxes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Candidate box{.score = best.score[at], .label = best.label[at], .index = i};
    if (head.layout.best) {
      box.score = answer.at(i, 4);
      const float label = answer.at(i, 5);
      box.label = label >= 0 && label < 1 << 24 ? static_cast<int>(label) : 0;
    }
    if (std::isnan(box.score)) ++bad;
    if (!(box.score > confidence) || (head.layout.objectness && !(answer.at(i, 4) > confidence))) continue;
    if (!classes.empty() && std::ranges::find(classes, box.label) == classes.end()) continue;
    const auto side = [&](std::int64_t value, int pixels) {
      return answer.at(i, value) * (head.layout.relative ? static_cast<float>(pixels) : 1);
    };
    box.a = side(0, width), box.b = side(1, height), box.c = side(2, width), box.d = side(3, height);
    if (upright && !head.layout.corners) {
      const float x = box.a, y = box.b, across = box.c / 2, down = box.d / 2;
      box.a = x - across, box.b = y - down, box.c = x + across, box.d = y + down;
    }
    if (!upright) box.angle = answer.extra(i, 0);
    if (!std::isfinite(box.a + box.b + box.c + box.d + box.angle)) ++bad;
    result.push_back(box);
  }
  if (bad > 0) fail("the network answered with NaN or infinity in place of boxes or scores, ", bad, " of ", head.boxes);
  return result;
}

void keep_best(std::vector<Candidate>& candidates, std::size_t most) {
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::score);
  if (candidates.size() > most) candidates.resize(most);
}

std::vector<Candidate> suppressed(const std::vector<Candidate>& candidates, double iou, bool across_classes,
                                  bool turned, std::size_t most) {
  return turned ? kept<Gaussian>(candidates, iou, across_classes, most, true)
                : kept<Corners>(candidates, iou, across_classes, most, false);
}

}  // namespace lamina::detail
