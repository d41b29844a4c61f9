// Ops of operands of which only a run knows how many elements they have, or of numbers that only a run makes.

#include "lamina/ops/rows/counts/counted.h"

#include <algorithm>
#include <limits>

#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

int whole(Expansion& e, const std::vector<std::int64_t>& values, Shape shape) {
  return e.constant_node(Tensor::from(values, shape));
}

}  // namespace

int join_there(Expansion& e, std::vector<int> nodes, int axis) {
  const auto fits = [&](int node) { return axis < e.rank(node); };
  const auto is_counted = [&](int node) { return fits(node) && e.count_of(node, axis) >= 0; };
  if (std::ranges::none_of(nodes, is_counted) || !std::ranges::all_of(nodes, fits))
    return e.join(std::move(nodes), axis);
  std::vector<int> there;  // beside each other as if there were all, then what is there
  for (int& node : nodes) {
    const int places = places_along(e, 0, 1, e.shape(node)[axis]);
    there.push_back(e.pointwise(Pointwise::less, {places, e.length(node, axis)}));
    node = e.uncounted(node, axis);
  }
  const int places = places_of_true(e, e.join(std::move(there), 0)), all = e.join(std::move(nodes), axis);
  return take(e, all, e.reshape(places, {e.shape(places)[0]}), axis);
}

int from_front(Expansion& e, int data, int indices, int first, int depth, std::int64_t beyond) {
  std::vector<int> lengths;
  std::vector<std::int64_t> nowhere;
  bool any = beyond > 0;
  for (int d = first; d < first + depth; ++d) {
    lengths.push_back(e.length(data, d)), nowhere.push_back(e.shape(data)[d] + beyond);
    any |= e.count_of(data, d) >= 0;
  }
  if (!any || depth == 0) return indices;
  const Shape shape = e.shape(indices);
  const int given = e.cast(indices, DType::i64), zero = e.scalar(0, DType::i64);
  const int length = e.join(std::move(lengths), 0), turned = e.pointwise(Pointwise::add, {given, length});
  const int place = e.pointwise(Pointwise::where, {e.pointwise(Pointwise::less, {given, zero}), turned, given});
  const int outside = e.pointwise(Pointwise::logical_or, {e.pointwise(Pointwise::less, {place, zero}),
                                                          e.pointwise(Pointwise::greater_equal, {place, length})});
  return e.reshape(e.pointwise(Pointwise::where, {outside, whole(e, nowhere, {depth}), place}), shape);
}

namespace {

/// Whether whole rows of the data are written, which exporters say by an index for each element.
bool writes_rows(const Expansion& e, const ScatterProblem& problem, int data, int indices, int updates) {
  if (problem.kind != GatherKind::elements || problem.dim != 0 || !e.differs_by_rows(indices)) return false;
  for (int d = 1; d < e.rank(data); ++d) {
    if (e.shape(indices)[d] != e.shape(data)[d] || e.count_of(data, d) >= 0 || e.count_of(updates, d) >= 0)
      return false;
  }
  return e.shape(indices).numel() > 0;
}

/// An index [N, 1] for each of those rows.
int row_indices(Expansion& e, int indices) {
  int rows = e.uncounted(indices), count = e.count_of(indices, 0);
  for (int d = 1; d < e.rank(indices); ++d) {
    rows = e.slice(rows, d, 0, 1);
    if (e.count_of(indices, d) < 0) continue;
    // Updates have all of them: that a run has as many is checked where the rows are counted.
    const std::int64_t extent = e.shape(indices)[d];
    const int none =
        e.pointwise(Pointwise::sub, {e.check(e.count_of(indices, d), {.expected = extent}), whole(e, {extent}, {1})});
    count = e.pointwise(Pointwise::add, {count < 0 ? e.length(indices, 0) : count, none});
  }
  return e.counted(e.reshape(rows, {e.shape(rows)[0], 1}), 0, count);
}

}  // namespace

int solve_scatter(Expansion& e, const ScatterProblem& problem, int data, int indices, int updates) {
  if (writes_rows(e, problem, data, indices, updates)) {
    const int rows = row_indices(e, indices);
    return solve_scatter(e, {.kind = GatherKind::nd, .reduction = problem.reduction}, data, rows, updates);
  }
  if (!e.has_counts(data) && !e.has_counts(indices) && !e.has_counts(updates))
    return e.solve(problem, e.shape(data), e.dtype(data), {data, indices, updates});
  // What is behind a count goes behind the end of the first axis that indices are for, which is cut off again.
  const bool nd = problem.kind == GatherKind::nd;
  const int axis = nd ? 0 : problem.dim, depth = nd ? static_cast<int>(e.shape(indices)[-1]) : 1;
  if (depth == 0) e.refuse("by indices of nothing, of which a run knows how many there are; not supported");
  const std::int64_t extent = e.shape(data)[axis];
  std::vector<std::int64_t> end(static_cast<std::size_t>(depth), 0);
  end[0] = extent;
  int places = from_front(e, data, indices, axis, depth, 1);
  for (int d = 0; d < e.rank(places) - (nd ? 1 : 0); ++d) {
    const int count = std::max(e.count_of(indices, d), e.count_of(updates, d));
    places = e.sized(places, d, count);
    places = e.filled(places, d, whole(e, end, {depth}));
  }
  int result = pick(e, e.uncounted(data), {places_of(e, axis, 0, extent + 1, extent)});
  result = e.solve(problem, e.shape(result), e.dtype(data), {result, places, e.uncounted(updates)});
  result = e.slice(result, axis, 0, extent);
  for (int d = 0; d < e.rank(data); ++d) result = e.counted(result, d, e.count_of(data, d));
  return result;
}

int values_at(Expansion& e, int x, int places, int axis) {
  int values = e.solve(GatherProblem{.kind = GatherKind::elements, .dim = axis}, e.shape(places), e.dtype(x),
                       {e.uncounted(x), e.uncounted(places)});
  for (int d = 0; d < e.rank(places); ++d) values = e.counted(values, d, e.count_of(places, d));
  return values;
}

int counted_top_k(Expansion& e, TopKProblem problem, std::int64_t most, int made) {
  const int x = e.input(0), all = e.length(x, problem.dim);
  if (e.shape(x)[problem.dim] < 2) e.refuse("of one element, as many as a run makes; not supported");
  if (made < 0) made = whole(e, {most}, {1});
  const int count = e.check(e.join({made, all}, 0), {.enough = true});
  const DType dtype = e.dtype(x), wide = is_float(dtype) ? dtype : DType::i64;
  int last = e.least(wide);
  if (!problem.largest)
    last = is_float(dtype) ? e.scalar(std::numeric_limits<double>::quiet_NaN(), dtype) : e.greatest(wide);
  problem.k = std::clamp<std::int64_t>(most, 2, e.shape(x)[problem.dim]);
  Shape to = e.shape(x);
  to.set(problem.dim, problem.k);
  return e.counted(e.solve(problem, to, DType::i64, {e.filled(e.cast(x, wide), problem.dim, last)}), problem.dim,
                   count);
}

int counted_reduce(Expansion& e, Reduction kind, int x, std::vector<int> axes, bool keep) {
  using R = Reduction;
  const DType dtype = e.dtype(x), wide = is_float(dtype) ? dtype : DType::i64;
  if (kind == R::mean && !is_float(dtype))
    e.refuse("of whole numbers of which a run knows how many there are; not supported");
  const bool low = kind == R::max || kind == R::arg_max || kind == R::log_sum_exp,
             high = kind == R::min || kind == R::arg_min;
  const int number = low ? e.least(wide) : high ? e.greatest(wide) : e.scalar(kind == R::prod ? 1 : 0, wide);
  int node = e.cast(x, wide), count = -1;
  for (const int axis : axes) {
    const int length = e.cast(e.length(x, axis), wide);
    count = count < 0 ? length : e.pointwise(Pointwise::mul, {count, length});
    node = e.filled(node, axis, number);
  }
  const bool place = kind == R::arg_max || kind == R::arg_min;
  const int result = e.reduce(kind == R::mean ? R::sum : kind, node, std::move(axes), keep);
  return kind == R::mean ? e.pointwise(Pointwise::div, {result, e.reshape(count, {})})
         : place         ? result
                         : e.cast(result, dtype);
}

int counted_range(Expansion& e) {
  const Expansion::Sizes limit = e.sizes(1);
  const std::int64_t start = e.integers(0).at(0), step = e.integers(2).at(0), most = limit.most.at(0);
  if (is_float(e.dtype(e.input(0))) || step < 1)
    e.refuse("to a limit that a run makes, of numbers that are not whole or fall; not supported");
  std::vector<std::int64_t> values;
  for (std::int64_t value = start; value < most && std::ssize(values) <= longest_list; value += step)
    values.push_back(value);
  if (std::ssize(values) > longest_list) e.refuse("a range up to ", most, " is too long");
  while (std::ssize(values) < least_capacity) values.push_back(0);
  const auto one = [&](std::int64_t value) { return whole(e, {value}, {1}); };
  const int distance =
      e.pointwise(Pointwise::max, {e.pointwise(Pointwise::add, {limit.made.at(0), one(step - 1 - start)}), one(0)});
  const int count = e.pointwise(Pointwise::div, {distance, one(step)});
  return e.counted(e.cast(whole(e, values, {std::ssize(values)}), e.dtype(e.input(0))), 0, count);
}

int choose_in_run(Expansion& e) {
  const int condition = e.reshape(e.input(0), {}), a = e.input(1), b = e.input(2), rank = e.rank(a);
  if (rank != e.rank(b) || e.dtype(a) != e.dtype(b))
    e.refuse("expected branches of one rank and type, got ", e.dtype(a), ' ', e.shape(a), " and ", e.dtype(b), ' ',
             e.shape(b));
  std::vector<int> counts;
  std::vector<std::int64_t> extents;
  for (int d = 0; d < rank; ++d) {
    extents.push_back(e.shape(a)[d]), counts.push_back(e.count_of(a, d));
    if (extents.back() == e.shape(b)[d] && counts.back() == e.count_of(b, d)) continue;
    extents.back() = std::max({extents.back(), e.shape(b)[d], least_capacity});
    const int length = e.pointwise(Pointwise::where, {e.reshape(condition, {1}), e.length(a, d), e.length(b, d)});
    counts.back() = e.check(length, {.most = extents.back()});
  }
  const Shape shape = to_shape(extents);
  const auto as_long = [&](int node) {
    node = e.uncounted(node);
    const Shape own = e.shape(node);
    if (own.numel() == 0) return e.constant_node(Tensor::zeros(shape, e.dtype(node)));
    std::vector<Picks> picks;
    for (int d = 0; d < rank; ++d) {
      if (own[d] != shape[d]) picks.push_back(places_of(e, d, 0, shape[d], own[d]));
    }
    return picks.empty() ? node : pick(e, node, picks);
  };
  int chosen = e.pointwise(Pointwise::where, {condition, as_long(a), as_long(b)});
  for (int d = 0; d < rank; ++d) chosen = e.counted(chosen, d, counts[static_cast<std::size_t>(d)]);
  return chosen;
}

}  // namespace lamina::detail
