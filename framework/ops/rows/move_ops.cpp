// Ops that bring elements to other places.

#include <algorithm>
#include <limits>
#include <numeric>

#include "lamina/base/math.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/counts/counted.h"
#include "lamina/ops/rows/counts/places.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

using Extents = std::vector<std::int64_t>;

int transpose(Expansion& e) {
  const int rank = e.rank(e.input(0));
  Extents reversed(static_cast<std::size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), std::int64_t{0});
  std::vector<int> order;
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  for (const std::int64_t axis : e.attributes().integers("perm", reversed)) {
    order.push_back(e.axis_of(axis, rank));
    if (seen[static_cast<std::size_t>(order.back())]) e.refuse("axis ", axis, " stands twice in perm");
    seen[static_cast<std::size_t>(order.back())] = true;
  }
  if (static_cast<int>(order.size()) != rank) e.refuse("expected a perm of ", rank, " axes, got ", order.size());
  return e.permute(e.input(0), order);
}

/// Where ONNX's slices begin and end: bounds beyond the axis are its ends. NumPy's are the same, but that one which
/// goes backwards from before the first element has that element here, and none there.
Extents slice_places(Expansion& e, std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) e.refuse("expected a step other than ", step);
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto bound = [&](std::int64_t place, std::int64_t low) {
    return std::clamp(place < 0 ? (place < -extent ? low : place + extent) : place, low, high);
  };
  start = bound(start, std::min<std::int64_t>(0, high)), end = bound(end, step > 0 ? 0 : -1);
  const std::int64_t distance = step > 0 ? end - start : start - end;
  const std::int64_t pace = step > 0 ? step : -step;
  if (distance / pace >= longest_list) e.refuse("a part of ", distance / pace, " elements is too long");
  Extents places;
  for (std::int64_t i = 0; i < distance; i += std::min(pace, distance))
    places.push_back(step > 0 ? start + i : start - i);
  return places;
}

int slice(Expansion& e) {
  int x = e.input(0);
  const int rank = e.rank(x);
  const std::vector<Expansion::Number> starts = e.whole_numbers(1), ends = e.whole_numbers(2);
  Extents axes(starts.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (e.has(3)) axes = e.integers(3);
  const Extents steps = e.has(4) ? e.integers(4) : Extents(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    e.refuse("expected as many starts, ends, axes and steps");
  }
  std::vector<Picks> picks;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int d = e.axis_of(axes[i], rank);
    const std::int64_t extent = e.shape(x)[d];
    const std::int64_t start = starts[i].most, end = ends[i].most;
    const bool known = starts[i].made < 0 && ends[i].made < 0;
    if (e.count_of(x, d) >= 0 || !known) {
      const bool whole = known && steps[i] == 1 && start == 0 && end >= extent;
      if (!whole) x = counted_slice(e, x, d, starts[i], ends[i], steps[i]);
      continue;
    }
    Extents places = slice_places(e, extent, start, end, steps[i]);
    const bool all = static_cast<std::int64_t>(places.size()) == extent && steps[i] == 1;
    if (!all) picks.push_back({d, std::move(places)});
  }
  return picks.empty() ? x : pick(e, x, picks);
}

/// Parts along an axis, of the sizes that operand 1 says, or "num_outputs" of them with the last one smaller; "output"
/// says which one this is.
int split(Expansion& e) {
  const int x = e.input(0), axis = e.axis_of(e.attributes().long_integer("axis", 0), e.rank(x));
  const std::int64_t extent = e.shape(x)[axis], which = e.attributes().long_integer("output", 0);
  const std::int64_t outputs = e.attributes().long_integer("num_outputs", 0);
  Extents sizes;
  if (e.has(1)) {
    const Expansion::Sizes given = e.sizes(1);
    if (given.made.size() == 1 && given.made[0] >= 0) return e.sized(x, axis, given.made[0]);
    const bool made = std::ranges::any_of(given.made, [](int node) { return node >= 0; });
    if (made || e.count_of(x, axis) >= 0) return counted_part(e, x, axis, given, which);
    sizes = given.most;
  } else {
    if (outputs < 1 || outputs > longest_list) e.refuse("expected sizes or num_outputs, got ", outputs);
    const std::int64_t part = ceil_div(extent, outputs);
    for (std::int64_t i = 0, rest = extent; i < outputs; ++i, rest -= sizes.back())
      sizes.push_back(std::min(part, rest));
  }
  std::int64_t begin = 0, total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > extent - total) e.refuse("parts do not make up an axis of ", extent);
    total += sizes[i];
    if (static_cast<std::int64_t>(i) < which) begin = total;
  }
  if (total != extent) e.refuse("expected parts that make up an axis of ", extent, ", got ", total);
  if (which < 0 || which >= static_cast<std::int64_t>(sizes.size())) e.refuse("there is no output ", which);
  return e.slice(x, axis, begin, begin + sizes[static_cast<std::size_t>(which)]);
}

int concat_op(Expansion& e) {
  std::vector<int> nodes = e.all_inputs();
  if (nodes.empty()) e.refuse("expected an operand");
  const int axis = e.axis_of(e.attributes().long_integer("axis", 0), e.rank(nodes[0]));
  return join_there(e, std::move(nodes), axis);
}

/// The place that padding of an axis repeats, or -1.
std::int64_t padded_place(std::int64_t i, std::int64_t extent, const std::string& mode) {
  if (i >= 0 && i < extent) return i;
  if (mode == "edge") return std::clamp<std::int64_t>(i, 0, extent - 1);
  if (mode == "wrap") return ((i % extent) + extent) % extent;
  if (mode != "reflect") return -1;
  if (extent == 1) return 0;
  const std::int64_t period = 2 * (extent - 1), folded = ((i % period) + period) % period;
  return folded < extent ? folded : period - folded;
}

int pad(Expansion& e) {
  int x = e.input(0);
  const int rank = e.rank(x);
  const std::string mode = e.attributes().text("mode", "constant");
  require_one_of(e, "mode", mode, {"constant", "edge", "reflect", "wrap"});
  const std::vector<Expansion::Number> pads = e.whole_numbers(1);
  Extents axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (e.has(3)) axes = e.integers(3);
  if (pads.size() != 2 * axes.size()) e.refuse("expected ", 2 * axes.size(), " pads, got ", pads.size());
  const double fill = mode == "constant" && e.has(2) ? e.number(2) : 0;
  std::vector<Picks> picks;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int d = e.axis_of(axes[i], rank);
    const Expansion::Number &in_front = pads[i], &behind = pads[i + axes.size()];
    const std::int64_t extent = e.shape(x)[d], before = in_front.most, after = behind.most;
    const bool known = in_front.made < 0 && behind.made < 0;
    if (!known || (e.count_of(x, d) >= 0 && (before != 0 || after != 0))) {
      x = counted_pad(e, x, d, in_front, behind, mode, fill);
      continue;
    }
    if (before < -extent || after < -extent || before > longest_list || after > longest_list ||
        extent + before + after < 0 || extent + before + after > longest_list) {
      e.refuse("cannot pad an axis of ", extent, " by ", before, " and ", after);
    }
    if (before == 0 && after == 0) continue;
    // What negative pads cut off is gone before the others repeat what is left.
    const std::int64_t first = std::max<std::int64_t>(-before, 0),
                       left = extent - first + std::min<std::int64_t>(after, 0);
    if (left <= 0 && mode != "constant" && extent + before + after > 0)
      e.refuse("there is nothing to repeat in input ", e.shape(x), " with pads ", before, " and ", after);
    picks.push_back({d, {}});
    for (std::int64_t j = std::min<std::int64_t>(-before, 0); j < left + std::max<std::int64_t>(after, 0); ++j) {
      const std::int64_t place = padded_place(j, left, mode);
      picks.back().places.push_back(place < 0 ? place : first + place);
    }
  }
  return picks.empty() ? x : pick(e, x, picks, fill);
}

/// NumPy's broadcasting to a shape: both ways.
int expand(Expansion& e) {
  const int x = e.input(0);
  Expansion::Sizes given = e.sizes(1);
  Extents& to = given.most;
  const Shape from = e.shape(x);
  while (to.size() < from.rank()) to.insert(to.begin(), 1), given.made.insert(given.made.begin(), -1);
  const std::size_t missing = to.size() - from.rank();
  const Extents strides = row_major_strides(from);
  MoveProblem problem;
  for (std::size_t d = 0; d < to.size(); ++d) {
    MoveProblem::Axis axis = {.extent = to[d], .stride = 0};
    if (d >= missing) {
      const std::int64_t extent = from.extents()[d - missing];
      if (to[d] == 1 || to[d] == -1) axis.extent = to[d] = extent;
      if (extent != 1 && extent != to[d]) e.refuse("cannot expand ", from, " to ", to_shape(to));
      if (extent != 1) axis.stride = strides[d - missing];
    }
    problem.axes.push_back(std::move(axis));
  }
  const Shape result = to_shape(to);
  int node = result.numel() == from.numel() ? e.reshape(x, result) : e.move(x, std::move(problem), result);
  for (std::size_t d = 0; d < to.size(); ++d) {
    const int axis = static_cast<int>(d), count = given.made[d];
    const bool repeated = d < missing || from.extents()[d - missing] == 1;
    node = repeated ? e.counted(node, axis, count) : e.sized(node, axis, count);
  }
  return node;
}

int tile(Expansion& e) {
  const int x = e.input(0);
  const Expansion::Sizes given = e.sizes(1);
  const Extents& repeats = given.most;
  if (static_cast<int>(repeats.size()) != e.rank(x)) e.refuse("expected ", e.rank(x), " repeats, got ", repeats.size());
  const Shape from = e.shape(x);
  const Extents strides = row_major_strides(from);
  MoveProblem problem;
  Extents to;
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    const auto extent = checked_mul(repeats[d], from.extents()[d]);
    if (repeats[d] < 0 || !extent) e.refuse("cannot repeat an axis ", repeats[d], " times");
    to.push_back(*extent);
    problem.axes.push_back({.extent = repeats[d], .stride = 0});
    problem.axes.push_back({.extent = from.extents()[d], .stride = strides[d]});
  }
  int node = to_shape(to) == from ? x : e.move(x, std::move(problem), to_shape(to));
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (given.made[d] < 0) continue;
    node = e.counted(node, static_cast<int>(d), e.check(given.made[d], {.times = from.extents()[d]}));
  }
  return node;
}

/// As torch.roll: elements move by "shifts" along "dims" and come in again at the other end.
int roll(Expansion& e) {
  const int x = e.input(0), rank = e.rank(x);
  const Extents shifts = e.attributes().integers("shifts", {}), dims = e.attributes().integers("dims", {});
  if (shifts.size() != dims.size()) e.refuse("expected as many shifts as dims");
  std::vector<Picks> picks;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int d = e.axis_of(dims[i], rank);
    const std::int64_t extent = e.shape(x)[d];
    if (extent == 0) return x;
    if (extent > longest_list) e.refuse("an axis of ", extent, " is too long");
    if (std::ranges::find(picks, d, &Picks::axis) != picks.end()) e.refuse("axis ", d, " stands twice in dims");
    picks.push_back({d, {}});
    for (std::int64_t j = 0; j < extent; ++j) picks.back().places.push_back((j - shifts[i] % extent + extent) % extent);
  }
  return pick(e, x, picks);
}

/// The upper or the lower triangle of the last two axes, 0 elsewhere.
int trilu(Expansion& e) {
  const int x = e.input(0);
  const Shape& shape = e.shape(x);
  const bool upper = e.attributes().boolean("upper", true);
  if (shape.rank() < 2) e.refuse("expected an input of rank 2 or more, got ", shape);
  const std::int64_t rows = shape[-2], columns = shape[-1];
  if (rows > longest_list || columns > longest_list || rows * columns > longest_list) {
    e.refuse("a matrix of ", rows, " x ", columns, " is too large");
  }
  const std::int64_t k = std::clamp<std::int64_t>(e.has(1) ? e.integers(1).at(0) : 0, -rows - columns, rows + columns);
  Tensor kept({rows, columns}, DType::boolean);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    kept.values<bool>()[static_cast<std::size_t>(i)] = upper ? column - row >= k : column - row <= k;
  }
  int mask = e.constant_node(std::move(kept));
  for (int d = 0; d < 2; ++d) mask = e.counted(mask, d, e.count_of(x, e.rank(x) - 2 + d));
  return e.pointwise(Pointwise::where, {mask, x, e.scalar(0, e.dtype(x))});
}

/// Cropped, or padded with zeros, around the middle.
int center_crop_pad(Expansion& e) {
  const int x = e.input(0), rank = e.rank(x);
  const Extents to = e.integers(1);
  Extents axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  axes = e.attributes().integers("axes", axes);
  if (axes.size() != to.size()) e.refuse("expected ", axes.size(), " extents, got ", to.size());
  std::vector<Picks> picks;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int d = e.axis_of(axes[i], rank);
    const std::int64_t extent = e.shape(x)[d];
    if (to[i] < 0 || to[i] > longest_list) e.refuse("there is no extent ", to[i]);
    const std::int64_t first = to[i] > extent ? -((to[i] - extent) / 2) : (extent - to[i]) / 2;
    picks.push_back(places_of(e, d, first, to[i], extent));
  }
  return pick(e, x, picks);
}

constexpr OpRow move_rows[] = {{"CenterCropPad", center_crop_pad},
                               {"Concat", concat_op},
                               {"Expand", expand},
                               {"Pad", pad},
                               {"Roll", roll},
                               {"Slice", slice},
                               {"Split", split},
                               {"Tile", tile},
                               {"Transpose", transpose},
                               {"Trilu", trilu}};

}  // namespace

std::span<const OpRow> move_ops() { return move_rows; }

}  // namespace lamina::detail
