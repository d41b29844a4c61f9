#include "lamina/kernel/rules/move/strides.h"

#include <algorithm>
#include <vector>

#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {
namespace {

using Axis = MoveProblem::Axis;

/// The axes of a move, as few as do, if all are strides.
std::optional<MovePlan> strides_of(const MoveProblem& problem, const Preparation& p) {
  if (!is_movable(problem, p)) return std::nullopt;
  MovePlan plan = move_plan(problem, p);
  const auto table = [](const Axis& axis) { return !axis.offsets.empty(); };
  if (plan.outside || plan.count == 0 || std::ranges::any_of(plan.axes, table)) return std::nullopt;
  return plan;
}

/// Strides along the axes, outermost first, as strides along the dimensions of a row-major shape.
std::optional<Shape> along_dimensions(std::vector<Axis> axes, const Shape& shape) {
  Shape strides = shape;
  for (int d = static_cast<int>(shape.rank()); d-- > 0;) {
    const std::int64_t extent = shape[d];
    strides.set(d, 0);
    if (extent == 1) continue;
    while (!axes.empty() && axes.back().extent == 1) axes.pop_back();
    if (axes.empty() || axes.back().extent % extent != 0) return std::nullopt;
    strides.set(d, axes.back().stride);
    axes.back().extent /= extent;
    axes.back().stride *= extent;
  }
  return strides;
}

}  // namespace

std::optional<Shape> strides_along(std::vector<Axis> axes, const View& view) {
  const std::vector<int> order = memory_order(view);
  Shape in_order = view.shape, result = view.shape;
  for (std::size_t i = 0; i < order.size(); ++i) in_order.set(static_cast<int>(i), view.shape[order[i]]);
  const auto strides = along_dimensions(std::move(axes), in_order);
  if (!strides) return std::nullopt;
  for (std::size_t i = 0; i < order.size(); ++i) result.set(order[i], (*strides)[static_cast<int>(i)]);
  return result;
}

std::optional<Placement> placed_in_input(const MoveProblem& problem, const Preparation& p) {
  auto plan = strides_of(problem, p);
  if (!plan) return std::nullopt;
  const auto strides = strides_along(std::move(plan->axes), p.output());
  if (!strides) return std::nullopt;
  return Placement{plan->base, *strides};
}

std::optional<Placement> placed_in_output(const MoveProblem& problem, const Preparation& p) {
  auto plan = strides_of(problem, p);
  if (!plan || plan->base != 0) return std::nullopt;
  // What was a step along the input becomes the order of the axes, and their order in the output the step.
  std::int64_t place = 1;
  struct Turned {
    std::int64_t from;
    Axis axis;
  };
  std::vector<Turned> turned;
  for (auto axis = plan->axes.rbegin(); axis != plan->axes.rend(); ++axis) {
    if (axis->extent > 1) turned.push_back({axis->stride, {.extent = axis->extent, .stride = place}});
    place *= axis->extent;
  }
  std::ranges::sort(turned, std::ranges::greater(), &Turned::from);
  std::vector<Axis> axes;
  std::int64_t covered = p.input().shape.numel();
  for (const Turned& t : turned) {
    if (t.from * t.axis.extent != covered) return std::nullopt;
    covered = t.from;
    axes.push_back(t.axis);
  }
  if (covered != 1) return std::nullopt;
  const auto strides = strides_along(std::move(axes), p.input());
  if (!strides) return std::nullopt;
  return Placement{0, *strides};
}

}  // namespace lamina::detail
