#include "lamina/kernel/rules/move_layouts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lamina::detail {
namespace {

using Axis = MoveProblem::Axis;

// Offsets of an axis that are looked at one by one.
constexpr std::int64_t longest_table = std::int64_t{1} << 20;

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

/// Offsets into an image [N, C, H, W], in the order of dimensions, as those into one stored channels last.
bool turn_offsets(std::vector<Axis>& axes, const Shape& shape) {
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  std::array<std::int64_t, 4> furthest{};
  for (Axis& axis : axes) {
    if (axis.extent > longest_table) return false;
    std::vector<std::int64_t> offsets = std::move(axis.offsets);
    if (offsets.empty()) {
      for (std::int64_t i = 0; i < axis.extent; ++i) offsets.push_back(i * axis.stride);
      if (axis.stride < 0 && axis.extent > 1) return false;
    }
    std::array<std::int64_t, 4> most{};
    for (std::int64_t& offset : offsets) {
      if (offset < 0) continue;  // outside
      const std::array<std::int64_t, 4> at = {offset / (channels * height * width),
                                              offset / (height * width) % channels, offset / width % height,
                                              offset % width};
      for (std::size_t d = 0; d < 4; ++d) most[d] = std::max(most[d], at[d]);
      offset = ((at[0] * height + at[2]) * width + at[3]) * channels + at[1];
    }
    for (std::size_t d = 0; d < 4; ++d) furthest[d] += most[d];
    axis.offsets = std::move(offsets);
    axis.stride = 0;
  }
  for (std::size_t d = 0; d < 4; ++d) {
    if (furthest[d] >= std::max<std::int64_t>(shape[static_cast<int>(d)], 1)) return false;
  }
  return true;
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
  if (is_channels_last(input) && !turn_offsets(result.axes, input.shape)) return std::nullopt;
  return result;
}

}  // namespace lamina::detail
