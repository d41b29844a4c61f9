#include "lamina/detect/parts.h"

#include <cmath>

#include "lamina/base/error.h"
#include "lamina/layers/concat.h"
#include "lamina/ops/element_type.h"
#include "lamina/ops/op.h"

namespace lamina::detail {
namespace {

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
  float left, top, right, bottom;

  Corners(const Candidate& box, float offset)
      : left(box.a + offset), top(box.b + offset), right(box.c + offset), bottom(box.d + offset) {}
  float area() const { return (right - left) * (bottom - top); }
};

float overlap(const Corners& p, const Corners& q) {
  const float width = std::max(0.0f, std::min(p.right, q.right) - std::max(p.left, q.left));
  const float height = std::max(0.0f, std::min(p.bottom, q.bottom) - std::max(p.top, q.top));
  const float common = width * height;
  return common / (p.area() + q.area() - common);
}

template <class Outline>
std::vector<Candidate> kept(std::span<const Candidate> candidates, const DetectOptions& options) {
  constexpr float apart = 7680;  // classes are: boxes of two never meet. In f32, whose rounding decides about ties
  std::vector<Candidate> result;
  std::vector<Outline> rivals;
  for (const Candidate& candidate : candidates) {
    if (std::ssize(result) == options.most) break;
    heed_stop(options.stop, "detect");
    const Outline outline(candidate, options.across_classes ? 0 : static_cast<float>(candidate.label) * apart);
    const bool clear =
        std::ranges::none_of(rivals, [&](const Outline& r) { return overlap(r, outline) > options.iou; });
    if (clear) result.push_back(candidate);
    if (clear || std::is_same_v<Outline, Gaussian>) rivals.push_back(outline);
  }
  return result;
}

}  // namespace

void Head::choose_best(Graph& graph, std::span<const int> outputs) {
  const std::int64_t axis = layout.columns ? 1 : 2, rest = values - extras;
  const auto put = [&](auto module, std::initializer_list<Value> inputs) {
    return graph.add("detect." + std::to_string(graph.nodes().size()), std::move(module), inputs);
  };
  const auto number = [&](std::int64_t n) { return put(Constant(Tensor::from(std::vector{n}, {1})), {}); };
  const auto floats = [&](int node) { return put(Op("Cast", {{"to", std::int64_t{1}}}), {{node}}); };
  if (layout.apart) {
    const auto of = [&](int i) { return outputs[static_cast<std::size_t>(apart[static_cast<std::size_t>(i)])]; };
    const Value scores = put(Op("Unsqueeze"), {floats(of(1)), number(1)});
    Value rows = put(Concat(1), {floats(of(0)), scores});
    if (extras > 0) rows = put(Concat(1), {rows, put(Op("Flatten"), {floats(of(3))})});
    graph.output(put(Op("Unsqueeze"), {rows, number(0)}));
    const Value classes = put(Op("Cast", {{"to", std::int64_t{data_type_of(DType::i64)}}}), {{of(2)}});
    graph.output(put(Op("Unsqueeze"), {classes, number(0)}));
    const auto half = [&] { return put(Constant(Tensor::from(std::vector{0.5f}, {1})), {}); };
    if (mask_height > 0) graph.output(put(Op("Unsqueeze"), {put(Op("Sub"), {floats(of(4)), half()}), number(0)}));
    return;
  }
  const Value output = floats(outputs[0]);
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return put(Op("Slice"), {output, number(from), number(to), number(axis)});
  };
  if (layout.best) {
    graph.output(output);
  } else {
    Value scores = part(layout.fixed(), rest);
    if (layout.objectness) scores = put(Op("Mul"), {scores, part(4, 5)});
    const Value best = put(Op("ReduceMax"), {scores, number(axis)});
    graph.output(extras > 0 ? put(Concat(static_cast<int>(axis)), {part(0, 4), best, part(rest, values)})
                            : put(Concat(static_cast<int>(axis)), {part(0, 4), best}));
    graph.output(put(Op("ArgMax", {{"axis", axis}}), {scores}));
    values = 5 + extras;
  }
  if (mask_height > 0) graph.output(floats(outputs[1]));
}

Answers::Answers(const Head& head, std::span<const Tensor> outputs) {
  const bool columns = head.layout.columns;
  count = head.layout.apart ? outputs[0].shape()[1] : head.boxes;
  boxes = {outputs, 0, columns ? head.values : count, columns ? count : head.values};
  if (!head.layout.best) classes = {outputs, 1, 1, count};
  if (head.mask_height > 0) {
    const std::int64_t planes = head.layout.apart ? count : head.extras;  // a mask of each box, or parts of all
    prototypes = {outputs, head.layout.best ? 1u : 2u, planes * head.mask_height, head.mask_width};
  }
}

std::vector<Candidate> candidates_of(const Head& head, const Answers& answers, const DetectOptions& options,
                                     const Letterbox& way) {
  const bool upright = head.task != "obb";
  const float x = head.layout.stretched ? static_cast<float>(way.x.input) : 1;
  const float y = head.layout.stretched ? static_cast<float>(way.y.input) : 1;
  std::vector<Candidate> result;
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < answers.count; ++i) {
    const auto value = [&](std::int64_t k) { return head.at(answers, i, k); };
    Candidate box{.score = value(4), .index = i};
    const float label = head.layout.best ? value(5) : static_cast<float>(answers.classes.at(0, i));
    if (label >= 0 && label < 1 << 24) box.label = static_cast<int>(label);
    if (std::isnan(box.score)) ++bad;
    if (!(box.score > static_cast<float>(options.confidence))) continue;
    if (!options.classes.empty() && std::ranges::find(options.classes, box.label) == options.classes.end()) continue;
    box.a = value(0) * x, box.b = value(1) * y, box.c = value(2) * x, box.d = value(3) * y;
    if (upright && !head.layout.corners) {
      const float across = box.c / 2, down = box.d / 2;
      box.c = box.a + across, box.d = box.b + down;
      box.a -= across, box.b -= down;
    }
    if (!upright) box.angle = head.extra(answers, i, 0);
    if (!std::isfinite(box.a + box.b + box.c + box.d + box.angle)) ++bad;
    result.push_back(box);
  }
  if (bad > 0)
    fail("the network answered with NaN or infinity in place of boxes or scores, ", bad, " of ", answers.count);
  return result;
}

std::vector<Candidate> suppressed(std::span<const Candidate> candidates, const DetectOptions& options, bool turned) {
  return turned ? kept<Gaussian>(candidates, options) : kept<Corners>(candidates, options);
}

}  // namespace lamina::detail
