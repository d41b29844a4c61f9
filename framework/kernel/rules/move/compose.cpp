#include "lamina/kernel/rules/move/compose.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lamina::detail {
namespace {

using Axis = MoveProblem::Axis;

constexpr std::int64_t longest_table = std::int64_t{1} << 20;

std::int64_t offset(const Axis& axis, std::int64_t i) {
  return axis.offsets.empty() ? i * axis.stride : axis.offsets[static_cast<std::size_t>(i)];
}

/// A place in the output of the first move as an index along each of its axes.
class Digits {
 public:
  explicit Digits(const std::vector<Axis>& axes) : axes_(axes), place_value_(axes.size(), 1) {
    for (std::size_t d = axes.size(); d-- > 1;) place_value_[d - 1] = place_value_[d] * axes[d].extent;
  }
  std::size_t size() const { return axes_.size(); }
  std::int64_t extent(std::size_t d) const { return axes_[d].extent; }
  std::int64_t of(std::int64_t place, std::size_t d) const { return place / place_value_[d] % extent(d); }

  /// How many steps of `stride` stay within one axis, from its beginning; 0 if they would step across its end.
  std::int64_t steps_within(std::int64_t stride) const {
    for (std::size_t d = 0; d < size(); ++d) {
      if (stride < place_value_[d] || extent(d) == 1) continue;
      const std::int64_t step = stride / place_value_[d];
      return stride % place_value_[d] == 0 && extent(d) % step == 0 ? extent(d) / step : 0;
    }
    return 0;
  }

 private:
  const std::vector<Axis>& axes_;
  std::vector<std::int64_t> place_value_;  // of one step along an axis
};

/// Axes that are strides cut where they run from one axis of the first move into another.
std::vector<Axis> cut(const std::vector<Axis>& axes, const Digits& digits) {
  std::vector<Axis> result;  // innermost first
  for (auto next = axes.rbegin(); next != axes.rend(); ++next) {
    Axis axis = *next;
    while (axis.offsets.empty() && axis.stride > 0 && axis.extent > 1) {
      const std::int64_t within = digits.steps_within(axis.stride);
      if (within <= 1 || axis.extent <= within || axis.extent % within != 0) break;
      result.push_back({within, axis.stride});
      axis = {axis.extent / within, axis.stride * within};
    }
    result.push_back(std::move(axis));
  }
  std::ranges::reverse(result);
  return result;
}

/// Makes a table that is but a stride one, which begins at 0; returns where the table began.
std::int64_t take_stride(Axis& axis) {
  const std::vector<std::int64_t>& table = axis.offsets;
  const std::int64_t stride = axis.extent > 1 ? table[1] - table[0] : 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] < 0 || table[i] != table[0] + static_cast<std::int64_t>(i) * stride || stride < 0) return 0;
  }
  const std::int64_t begin = table[0];
  axis.stride = stride;
  axis.offsets.clear();
  return begin;
}

bool is_stride(const Axis& axis) { return axis.offsets.empty(); }

}  // namespace

std::optional<MoveProblem> composed(const MoveProblem& second, MoveProblem first) {
  const auto is_empty = [](const Axis& axis) { return axis.extent < 1; };
  if (std::ranges::any_of(first.axes, is_empty) || std::ranges::any_of(second.axes, is_empty)) return std::nullopt;
  if (second.axes.empty()) return std::nullopt;
  const Digits digits(first.axes);
  std::int64_t base = 0;  // where the first move's output begins
  for (Axis& axis : first.axes) {
    if (std::ranges::any_of(axis.offsets, [](std::int64_t o) { return o < 0; })) return std::nullopt;
    if (!is_stride(axis)) base += take_stride(axis);  // a slice is written as a table
    base += offset(axis, 0);
  }
  MoveProblem result = {.axes = cut(second.axes, digits), .fill = second.fill};
  // Offsets add up where indices do: if no axis is left, and of those that are tables only one index ever moves.
  std::vector<std::int64_t> furthest(digits.size(), 0);
  for (Axis& axis : result.axes) {
    if (axis.extent > longest_table || (is_stride(axis) && axis.stride < 0 && axis.extent > 1)) return std::nullopt;
    std::vector<std::int64_t> most(digits.size(), 0);
    Axis moved = {.extent = axis.extent};
    std::vector<bool> outside;
    std::int64_t least = 0;  // from the axis' first place back to its least: a roll begins in the middle
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      const std::int64_t place = offset(axis, i);
      outside.push_back(place < 0);
      std::int64_t to = 0;
      for (std::size_t d = 0; d < digits.size() && place >= 0; ++d) {
        const std::int64_t at = digits.of(place, d);
        most[d] = std::max(most[d], at);
        to += offset(first.axes[d], at) - offset(first.axes[d], 0);
      }
      moved.offsets.push_back(to);
      least = std::min(least, to);
    }
    for (std::size_t i = 0; i < outside.size(); ++i) moved.offsets[i] = outside[i] ? -1 : moved.offsets[i] - least;
    for (std::size_t d = 0; d < digits.size(); ++d) {
      if (most[d] > 0 && furthest[d] > 0 && !is_stride(first.axes[d])) return std::nullopt;
      furthest[d] += most[d];
      if (furthest[d] >= digits.extent(d) && furthest[d] > 0) return std::nullopt;
    }
    base += least + take_stride(moved);
    axis = std::move(moved);
  }
  if (base < 0) return std::nullopt;  // of a move all of which is outside
  if (base != 0) result.axes.insert(result.axes.begin(), {.extent = 1, .offsets = {base}});
  return result;
}

std::optional<MoveProblem> beside(std::span<const MoveProblem> parts, std::span<const Shape> shapes, std::size_t axis) {
  MoveProblem result;
  std::vector<std::int64_t> begins;
  Axis row;  // of the parts along `axis`, if they are alike
  bool alike = true;
  Axis table = {.extent = 0};
  for (MoveProblem part : parts) {
    std::int64_t begin = 0;
    if (!part.axes.empty() && part.axes[0].extent == 1 && part.axes[0].offsets.size() == 1 &&
        part.axes.size() > shapes[begins.size()].rank()) {
      begin = part.axes[0].offsets[0];
      part.axes.erase(part.axes.begin());
    }
    const Shape& shape = shapes[begins.size()];
    if (begin < 0 || axis >= shape.rank() || !std::ranges::equal(part.axes, shape, {}, &Axis::extent))
      return std::nullopt;
    Axis& along = part.axes[axis];
    for (Axis& one : part.axes) {
      if (one.extent < 1 || one.extent > longest_table) return std::nullopt;
      if (&one != &along && !is_stride(one)) begin += take_stride(one);
    }
    for (std::int64_t i = 0; i < along.extent; ++i) {
      const std::int64_t place = offset(along, i);
      table.offsets.push_back(!is_stride(along) && place < 0 ? -1 : begin + place);
      if (table.offsets.back() < -1 || (is_stride(along) && place < 0)) return std::nullopt;
    }
    table.extent += along.extent;
    if (!is_stride(along)) begin += take_stride(along);
    begins.push_back(begin);
    if (begins.size() == 1) row = along, result = part;
    alike &= is_stride(along) && along.extent == row.extent && along.stride == row.stride;
    if (table.extent > longest_table || part.fill != result.fill || part.axes.size() != result.axes.size()) {
      return std::nullopt;
    }
    for (std::size_t d = 0; d < part.axes.size(); ++d) {
      const Axis &a = part.axes[d], &b = result.axes[d];
      const bool same = a.extent == b.extent && a.stride == b.stride && a.offsets == b.offsets;
      if (d != axis && !same) return std::nullopt;
    }
  }
  if (parts.empty()) return std::nullopt;
  result.axes[axis] = std::move(table);
  if (alike) {
    result.axes[axis] = {.extent = static_cast<std::int64_t>(begins.size()), .offsets = std::move(begins)};
    result.axes.insert(result.axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, row);
  }
  return result;
}

Shape with_last_two_swapped(Shape shape) {
  const std::int64_t last = shape[-1];
  shape.set(-1, shape[-2]);
  shape.set(-2, last);
  return shape;
}

std::optional<MoveProblem> with_last_two_swapped(const MoveProblem& problem, const Shape& to) {
  MoveProblem move = problem;
  auto end = move.axes.end(), middle = end;
  std::int64_t columns = 1, rows = 1;
  while (columns < to[-1] && middle != move.axes.begin()) columns *= (--middle)->extent;
  auto begin = middle;
  while (rows < to[-2] && begin != move.axes.begin()) rows *= (--begin)->extent;
  if (columns != to[-1] || rows != to[-2]) return std::nullopt;
  std::rotate(begin, middle, end);
  return move;
}

std::optional<MoveProblem> moves_rows(const MoveProblem& problem, std::int64_t elements, std::int64_t length,
                                      std::int64_t wanted) {
  MoveProblem result = {.axes = {}, .fill = problem.fill};
  if (length < 1) return std::nullopt;
  std::int64_t covered = 1, count = 1;
  for (auto axis = problem.axes.rbegin(); axis != problem.axes.rend(); ++axis) {
    count *= axis->extent;
    const bool stride = axis->offsets.empty();
    if (covered < length) {
      if (axis->extent > 1 ? !stride || axis->stride != covered : !stride && axis->offsets[0] != 0) return std::nullopt;
      covered *= axis->extent;
      continue;
    }
    MoveProblem::Axis longer = {axis->extent, axis->stride / length * wanted};
    bool whole = axis->stride % length == 0;
    for (const std::int64_t offset : axis->offsets) {
      whole &= offset >= 0 && offset % length == 0;
      longer.offsets.push_back(offset / length * wanted);
    }
    if (!whole) return std::nullopt;
    result.axes.push_back(std::move(longer));
  }
  if (covered != length || count != elements) return std::nullopt;
  std::ranges::reverse(result.axes);
  result.axes.push_back({wanted, 1});
  return result;
}

}  // namespace lamina::detail
