// Elements at places that an operand says.

#include <algorithm>
#include <limits>

#include "lamina/ops/boxes.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/counts/counted.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// An operand of indices, as kernels read them.
int indices_of(Expansion& e, int i) {
  const int node = e.input(i);
  const DType dtype = e.dtype(node);
  if (is_float(dtype) || dtype == DType::boolean) e.refuse("expected indices of whole numbers, got ", dtype);
  return dtype == DType::i32 ? node : e.cast(node, DType::i64);
}

/// What is known is refused now if it is outside, else in the run. `depth` components: one of each extent.
void check_range(const Expansion& e, int node, std::span<const std::int64_t> extents) {
  if (!e.known(node).defined()) return;
  std::size_t component = 0;
  const Tensor wide = e.known(node).to(DType::i64);
  for (const std::int64_t value : wide.values<std::int64_t>()) {
    const std::int64_t extent = extents[component];
    if (value < -extent || value >= extent) e.refuse("index ", value, " is outside of an extent of ", extent);
    component = component + 1 == extents.size() ? 0 : component + 1;
  }
}

std::vector<std::int64_t> joined(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                                 std::span<const std::int64_t> c) {
  std::vector<std::int64_t> result(a.begin(), a.end());
  result.insert(result.end(), b.begin(), b.end());
  result.insert(result.end(), c.begin(), c.end());
  return result;
}

/// Looks up indices: 0 for those behind their count.
int gathered(Expansion& e, const GatherProblem& problem, Shape to, int data, int indices) {
  const bool nd = problem.kind == GatherKind::nd;
  const int first = nd ? problem.batch_dims : problem.dim, depth = nd ? static_cast<int>(e.shape(indices)[-1]) : 1;
  indices = from_front(e, data, indices, first, depth);
  for (int d = first; d < first + depth; ++d) data = e.uncounted(data, d);
  int result = e.solve(problem, to, e.dtype(data), {data, e.with_zeros(indices)});
  for (int d = 0; d < e.rank(indices); ++d) {
    const int axis = d + (problem.kind == GatherKind::take ? problem.dim : 0);
    if (e.count_of(indices, d) >= 0) result = e.counted(result, axis, e.count_of(indices, d));
  }
  return result;
}

}  // namespace

/// Known indices are a table of places; others are looked up in each run.
int take(Expansion& e, int data, int indices, int axis) {
  const Shape from = e.shape(data);
  const std::int64_t extent = from[axis];
  check_range(e, indices, {&extent, 1});
  const auto at = static_cast<std::size_t>(axis);
  const Shape to =
      to_shape(joined(from.extents().first(at), e.shape(indices).extents(), from.extents().subspan(at + 1)));
  const Tensor& known = e.known(indices);
  if (!known.defined() || known.numel() > longest_list || e.count_of(data, axis) >= 0)
    return gathered(e, {.kind = GatherKind::take, .dim = axis}, to, data, indices);
  Picks picks = {.axis = axis, .places = to_integers(known)};
  for (std::int64_t& place : picks.places) place += place < 0 ? extent : 0;
  return e.reshape(pick(e, data, {picks}), to);
}

namespace {

int gather(Expansion& e) {
  const int axis = e.axis_of(e.attributes().long_integer("axis", 0), e.rank(e.input(0)));
  return take(e, e.input(0), indices_of(e, 1), axis);
}

/// Indices and data have one rank, and but for the axis no extent of the indices is larger.
int element_axis(Expansion& e, int data, int indices) {
  const int axis = e.axis_of(e.attributes().long_integer("axis", 0), e.rank(data));
  bool fits = e.rank(indices) == e.rank(data);
  for (int d = 0; fits && d < e.rank(data); ++d) fits = d == axis || e.shape(indices)[d] <= e.shape(data)[d];
  if (!fits) e.refuse("indices ", e.shape(indices), " do not fit an operand ", e.shape(data));
  const std::int64_t extent = e.shape(data)[axis];
  check_range(e, indices, {&extent, 1});
  return axis;
}

int gather_elements(Expansion& e) {
  const int data = e.input(0), indices = indices_of(e, 1);
  const int axis = element_axis(e, data, indices);
  return gathered(e, {.kind = GatherKind::elements, .dim = axis}, e.shape(indices), data, indices);
}

/// How many dimensions of the data each index is for.
int index_depth(Expansion& e, int data, int indices, int batch) {
  const Shape &from = e.shape(data), &at = e.shape(indices);
  if (at.rank() == 0 || from.rank() == 0) e.refuse("expected operands of rank 1 or more, got ", from, " and ", at);
  if (batch < 0 || batch >= e.rank(data) || batch >= e.rank(indices)) e.refuse("there are no ", batch, " batch_dims");
  for (int d = 0; d < batch; ++d) {
    if (from[d] != at[d]) e.refuse("dimension ", d, " of ", from, " and of the indices ", at, " differ");
  }
  if (at[-1] > e.rank(data) - batch) e.refuse("indices ", at, " are for more dimensions than ", from, " has");
  const auto depth = static_cast<std::size_t>(at[-1]);
  if (depth > 0) check_range(e, indices, from.extents().subspan(static_cast<std::size_t>(batch), depth));
  return static_cast<int>(depth);
}

int gather_nd(Expansion& e) {
  const int data = e.input(0), indices = indices_of(e, 1), batch = e.attributes().integer("batch_dims", 0);
  const int depth = index_depth(e, data, indices, batch);
  const auto at = e.shape(indices).extents(), from = e.shape(data).extents();
  const Shape to = to_shape(joined(at.first(at.size() - 1), from.subspan(static_cast<std::size_t>(batch + depth)), {}));
  return gathered(e, {.kind = GatherKind::nd, .batch_dims = batch}, to, data, indices);
}

int scatter(Expansion& e, ScatterProblem problem, int indices) {
  using R = ScatterReduction;
  problem.reduction =
      choice<R>(e, "reduction", e.attributes().text("reduction", "none"),
                {{"none", R::none}, {"add", R::add}, {"mul", R::mul}, {"max", R::max}, {"min", R::min}});
  const int data = e.input(0), updates = e.input(2);
  if (e.dtype(updates) != e.dtype(data)) e.refuse("expected updates of ", e.dtype(data), ", got ", e.dtype(updates));
  return solve_scatter(e, problem, data, indices, updates);
}

int scatter_elements(Expansion& e) {
  const int data = e.input(0), indices = indices_of(e, 1);
  const int axis = element_axis(e, data, indices);
  if (e.shape(e.input(2)) != e.shape(indices))
    e.refuse("updates ", e.shape(e.input(2)), " are not like the indices ", e.shape(indices));
  return scatter(e, {.kind = GatherKind::elements, .dim = axis}, indices);
}

/// Updates at known places, which is how exporters write an assignment to a part of a tensor: every slice of the result
/// is then one of the data or of the updates, which a move can say. -1 if there are no slices, or if a table of them
/// would be too long.
int put(Expansion& e, int data, int indices, int depth) {
  constexpr std::int64_t longest_table = std::int64_t{1} << 20;
  const int updates = e.input(2);
  const Shape to = e.shape(data);
  const std::int64_t slices = count_of(to, 0, depth), size = count_of(to, depth, e.rank(data));
  if (depth == 0 || slices < 1 || size < 1) return -1;
  if (const int boxed = put_box(e, data, indices, updates); boxed >= 0) return boxed;
  const std::int64_t places = e.shape(indices).numel() / depth;
  if (slices > longest_table && places != slices) return -1;  // the others may yet be in order, which needs no table
  std::vector<std::int64_t> source(static_cast<std::size_t>(slices), -1);  // the update of each slice, or none
  const std::vector<std::int64_t> known = to_integers(e.known(indices));
  for (std::int64_t u = 0; u < places; ++u) {
    std::int64_t slice = 0;
    for (int d = 0; d < depth; ++d) {
      const std::int64_t at = known[static_cast<std::size_t>(u * depth + d)];
      slice = slice * to[d] + (at < 0 ? at + to[d] : at);
    }
    source[static_cast<std::size_t>(slice)] = u;
  }
  bool all = true, in_order = places == slices;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    const std::int64_t from = source[static_cast<std::size_t>(slice)];
    all &= from >= 0, in_order &= from == slice;
  }
  if (in_order) return e.reshape(updates, to);
  if (slices > longest_table) return -1;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    std::int64_t& from = source[static_cast<std::size_t>(slice)];
    if (!all) from = from < 0 ? slice : slices + from;
    from *= size;
  }
  int rows = e.reshape(updates, {places, size});
  if (!all) rows = e.join({e.reshape(data, {slices, size}), rows}, 0);
  return e.move(rows, {.axes = {{.extent = slices, .offsets = std::move(source)}, {.extent = size, .stride = 1}}}, to);
}

int scatter_nd(Expansion& e) {
  const int data = e.input(0), indices = indices_of(e, 1);
  const int depth = index_depth(e, data, indices, 0);
  const auto at = e.shape(indices).extents(), from = e.shape(data).extents();
  const Shape wanted = to_shape(joined(at.first(at.size() - 1), from.subspan(static_cast<std::size_t>(depth)), {}));
  if (e.shape(e.input(2)) != wanted) e.refuse("expected updates ", wanted, ", got ", e.shape(e.input(2)));
  const bool plain = e.attributes().text("reduction", "none") == "none" && e.dtype(e.input(2)) == e.dtype(data);
  const int result = plain && e.known(indices).defined() ? put(e, data, indices, depth) : -1;
  return result >= 0 ? result : scatter(e, {.kind = GatherKind::nd}, indices);
}

int top_k(Expansion& e) {
  const int x = e.input(0), output = e.attributes().integer("output", 0);
  TopKProblem problem = {.dim = e.axis_of(e.attributes().long_integer("axis", -1), e.rank(x))};
  problem.largest = e.attributes().boolean("largest", true);
  e.attributes().boolean("sorted", true);
  const Expansion::Sizes given = e.sizes(1);
  const std::vector<std::int64_t>& k = given.most;
  if (k.size() != 1) e.refuse("expected one number as operand 2");
  if (output < 0 || output > 1) e.refuse("there is no output ", output);
  Shape to = e.shape(x);
  const int places = e.once([&] {
    if (given.made[0] >= 0 || e.count_of(x, problem.dim) >= 0) return counted_top_k(e, problem, k[0], given.made[0]);
    if (k[0] < 0 || k[0] > to[problem.dim])
      e.refuse("there are no ", k[0], " elements along axis ", problem.dim, " of ", to);
    problem.k = k[0];
    to.set(problem.dim, k[0]);
    return e.solve(problem, to, DType::i64, {x});
  });
  return output == 1 ? places : values_at(e, x, places, problem.dim);
}

int one_hot(Expansion& e) {
  const int rank = e.rank(e.input(0));
  const int indices = e.cast(e.input(0), DType::i64), values = e.input(2);
  const int axis = e.axis_of(e.attributes().long_integer("axis", -1), rank + 1);
  const bool fixed = e.known(e.input(1)).defined();
  const int made = fixed ? -1 : e.sizes(1).made.at(0);
  const double depth = fixed ? e.number(1) : static_cast<double>(e.sizes(1).most.at(0));
  if (!(depth >= 0 && depth <= static_cast<double>(longest_list))) e.refuse("cannot have a depth of ", depth);
  if (e.shape(values) != Shape{2}) e.refuse("expected values [off, on], got ", e.shape(values));
  std::vector<std::int64_t> one = extents_of(e.shape(indices));
  one.insert(one.begin() + axis, 1);
  const auto count = static_cast<std::int64_t>(depth);
  const int place = places_along(e, axis, rank + 1, count);
  const int index = e.reshape(indices, to_shape(one));
  // Negative indices count from the end, others that are outside are nowhere.
  const int length = fixed ? e.scalar(depth, DType::i64) : e.reshape(made, {});
  const int from_end = e.pointwise(Pointwise::add, {index, length});
  const int hot = e.pointwise(Pointwise::logical_or, {e.pointwise(Pointwise::equal, {index, place}),
                                                      e.pointwise(Pointwise::equal, {from_end, place})});
  const int result = e.pointwise(Pointwise::where, {hot, e.slice(values, 0, 1, 2), e.slice(values, 0, 0, 1)});
  return e.counted(result, axis, made);
}

/// Numbers of the rows that a dimension of `shape` has, to broadcast.
int row_numbers(Expansion& e, int numbers, int dim, const Shape& shape) {
  std::vector<std::int64_t> extents(shape.rank(), 1);
  extents[static_cast<std::size_t>(dim)] = shape[dim];
  if (e.shape(numbers) != Shape{shape[dim]}) e.refuse("expected ", shape[dim], " numbers, got ", e.shape(numbers));
  return e.reshape(e.cast(numbers, DType::i64), to_shape(extents));
}

/// Repeated to that shape.
int like(Expansion& e, int places, const Shape& shape) {
  return e.pointwise(Pointwise::add, {places, e.constant_node(Tensor::zeros(shape, DType::i64))});
}

/// A cache with new slices at a place of each row's own.
int tensor_scatter(Expansion& e) {
  const int data = e.input(0), updates = e.input(1), rank = e.rank(data);
  const int axis = e.axis_of(e.attributes().long_integer("axis", -2), rank);
  const Shape to = e.shape(data), from = e.shape(updates);
  const bool circular =
      choice<bool>(e, "mode", e.attributes().text("mode", "linear"), {{"linear", false}, {"circular", true}});
  bool fits = from.rank() == to.rank() && axis > 0;
  for (int d = 0; fits && d < rank; ++d) fits = d == axis ? from[d] <= to[d] : from[d] == to[d];
  if (!fits) e.refuse("updates ", from, " do not fit a cache ", to);
  const int first = e.has(2) ? e.input(2) : e.constant_node(Tensor::zeros({to[0]}, DType::i64));
  int places = e.pointwise(Pointwise::add, {row_numbers(e, first, 0, to), places_along(e, axis, rank, from[axis])});
  if (circular) places = e.pointwise(Pointwise::mod, places, static_cast<double>(to[axis]));
  return solve_scatter(e, {.kind = GatherKind::elements, .dim = axis}, data, like(e, places, from), updates);
}

/// The first elements of each row, as many as it says, the other way round.
int reverse_sequence(Expansion& e) {
  const int data = e.input(0), rank = e.rank(data);
  const int rows = e.axis_of(e.attributes().long_integer("batch_axis", 1), rank),
            axis = e.axis_of(e.attributes().long_integer("time_axis", 0), rank);
  const Shape shape = e.shape(data);
  if (rows == axis) e.refuse("expected two axes, got ", axis, " twice");
  const int length = row_numbers(e, e.input(1), rows, shape), place = places_along(e, axis, rank, shape[axis]);
  const int last = e.pointwise(Pointwise::add, length, -1), turned = e.pointwise(Pointwise::sub, {last, place});
  const int places = e.pointwise(Pointwise::where, {e.pointwise(Pointwise::less, {place, length}), turned, place});
  return gathered(e, {.kind = GatherKind::elements, .dim = axis}, shape, data, like(e, places, shape));
}

constexpr OpRow index_rows[] = {{"Gather", gather},
                                {"GatherElements", gather_elements},
                                {"GatherND", gather_nd},
                                {"OneHot", one_hot},
                                {"ReverseSequence", reverse_sequence},
                                {"Scatter", scatter_elements},
                                {"ScatterElements", scatter_elements},
                                {"ScatterND", scatter_nd},
                                {"TensorScatter", tensor_scatter},
                                {"TopK", top_k}};

}  // namespace

std::span<const OpRow> index_ops() { return index_rows; }

}  // namespace lamina::detail
