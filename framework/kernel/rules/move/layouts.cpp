#include "lamina/kernel/rules/move/layouts.h"

#include <array>
#include <utility>
#include <vector>

#include "lamina/kernel/rules/move/compose.h"

namespace lamina::detail {
namespace {

using Axis = MoveProblem::Axis;

bool is_channels_last(const View& view) { return view.format.layout == Layout::nhwc && view.shape.rank() == 4; }

/// An axis as two, `inner` elements of it within each of the others.
std::optional<std::pair<Axis, Axis>> split(const Axis& axis, std::int64_t inner) {
  const std::int64_t outer = axis.extent / inner;
  if (axis.offsets.empty()) return std::pair(Axis{outer, axis.stride * inner}, Axis{inner, axis.stride});
  std::pair<Axis, Axis> result = {Axis{outer}, Axis{inner}};
  const auto at = [&](std::int64_t i) { return axis.offsets[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i < outer; ++i) result.first.offsets.push_back(at(i * inner));
  for (std::int64_t j = 0; j < inner; ++j) result.second.offsets.push_back(at(j) - at(0));
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    const std::int64_t first = at(i - i % inner), second = at(i % inner) - at(0);
    if (at(i) < 0 || second < 0 || at(i) != first + second) return std::nullopt;
  }
  return result;
}

/// Axes that walk an image [N, C, H, W] in that order, in the order N, H, W, C.
std::optional<std::vector<Axis>> channels_innermost(const std::vector<Axis>& axes, const Shape& shape) {
  std::array<std::vector<Axis>, 4> of_dim;  // innermost first
  int dim = 3;
  std::int64_t rest = shape[dim];  // of the dimension, still to be covered
  for (auto next = axes.rbegin(); next != axes.rend(); ++next) {
    Axis axis = *next;
    if (axis.extent == 1) {
      of_dim[0].push_back(axis);  // its offset counts wherever it stands
      continue;
    }
    while (axis.extent > 1) {
      while (rest == 1 && dim > 0) rest = shape[--dim];
      if (axis.extent <= rest) {
        if (rest % axis.extent != 0) return std::nullopt;
        rest /= axis.extent;
        of_dim[static_cast<std::size_t>(dim)].push_back(std::exchange(axis, Axis{}));
        break;
      }
      if (rest == 1 || axis.extent % rest != 0) return std::nullopt;
      auto parts = split(axis, rest);
      if (!parts) return std::nullopt;
      of_dim[static_cast<std::size_t>(dim)].push_back(std::move(parts->second));
      axis = std::move(parts->first);
      rest = 1;
    }
  }
  std::vector<Axis> result;
  for (const std::size_t from : {0u, 2u, 3u, 1u}) {
    std::move(of_dim[from].rbegin(), of_dim[from].rend(), std::back_inserter(result));
  }
  return result;
}

/// The image [N, C, H, W] that is stored channels last, as a move reads it.
MoveProblem from_channels_last(const Shape& shape) {
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  return {
      .axes = {{shape[0], channels * height * width}, {channels, 1}, {height, width * channels}, {width, channels}}};
}

}  // namespace

std::optional<MoveProblem> in_memory_order(const MoveProblem& problem, const View& input, const View& output) {
  if (input.shape.numel() == 0 || output.shape.numel() == 0) return problem;
  MoveProblem result = problem;
  if (is_channels_last(output)) {
    auto axes = channels_innermost(problem.axes, output.shape);
    if (!axes) return std::nullopt;
    result.axes = std::move(*axes);
  }
  return is_channels_last(input) ? composed(result, from_channels_last(input.shape)) : result;
}

}  // namespace lamina::detail
