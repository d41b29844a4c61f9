// What makes one element out of many along some axes, and running sums.

#include <algorithm>
#include <numeric>

#include "lamina/layers/pool2d.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/counts/counted.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

std::vector<int> all_axes(int first, int rank) {
  std::vector<int> axes(static_cast<std::size_t>(std::max(rank - first, 0)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

template <Reduction kind>
int reduce(Expansion& e) {
  const int x = e.input(0), rank = e.rank(x);
  const bool keep = e.attributes().boolean("keepdims", true);
  const bool none = e.attributes().boolean("noop_with_empty_axes", false);
  std::vector<int> axes = axes_of(e, e.has(1) ? e.integers(1) : std::vector<std::int64_t>(), rank);
  if (axes.empty() && !none) axes = all_axes(0, rank);
  std::ranges::sort(axes);
  const Shape& from = e.shape(x);
  // Exporters write a global average so; kernels that pool know images stored channels last.
  if (kind == Reduction::mean && axes == std::vector{2, 3} && rank == 4 && e.count_of(x, 2) < 0 &&
      e.count_of(x, 3) < 0 && e.dtype(x) == DType::f32 && from.numel() > 0) {
    const Shape pooled = {from[0], from[1]};
    const int mean = e.add(AdaptiveAvgPool2d(1), {x});
    return keep ? mean : e.reshape(mean, pooled);
  }
  for (const int axis : axes) {
    if (e.count_of(x, axis) >= 0) return counted_reduce(e, kind, x, axes, keep);
  }
  if (!axes.empty()) return e.reduce(kind, x, axes, keep);
  // Over no axes each element is all there is: |x| for l1, x * x for sum_square.
  const Shape shape = e.shape(x);
  return e.reshape(e.reduce(kind, e.reshape(x, {shape.numel(), 1}), {1}, false), shape);
}

template <Reduction kind>
int place_of(Expansion& e) {
  const int x = e.input(0), rank = e.rank(x);
  const std::int64_t axis = e.attributes().long_integer("axis", 0);
  const bool keep = e.attributes().boolean("keepdims", true), last = e.attributes().boolean("select_last_index", false);
  if (rank == 0) return e.reshape(e.reduce(kind, e.reshape(x, {1}), {0}, false), {});
  const int d = e.axis_of(axis, rank);
  if (e.shape(x)[d] == 0) e.refuse("there is nothing along axis ", axis, " of ", e.shape(x));
  if (e.count_of(x, d) >= 0 && !last) return counted_reduce(e, kind, x, {d}, keep);
  return e.reduce(kind, x, {d}, keep, last);
}

int require_image(Expansion& e) {
  const int x = e.input(0);
  if (e.rank(x) < 2) e.refuse("expected an operand [N, C, ...], got ", e.shape(x));
  return x;
}

/// Planes of any rank become [N, C, L, 1]: rank 4 is what kernels for pictures know.
int global_average(Expansion& e) {
  const int x = require_image(e), rank = e.rank(x);
  if (rank == 2) return x;
  const Shape from = e.shape(x);
  const int image = rank == 4 ? x : e.reshape(x, {from[0], from[1], count_of(from, 2, rank), 1});
  const int mean = e.add(AdaptiveAvgPool2d(1), {as_f32(e, image)});
  Shape to = from;
  for (int d = 2; d < rank; ++d) to.set(d, 1);
  return e.reshape(e.cast(mean, e.dtype(x)), to);
}

int global_max(Expansion& e) {
  const int x = require_image(e);
  return e.rank(x) == 2 ? x : e.reduce(Reduction::max, x, all_axes(2, e.rank(x)), true);
}

int global_lp(Expansion& e) {
  const int x = require_image(e), p = e.attributes().integer("p", 2);
  const std::vector<int> axes = all_axes(2, e.rank(x));
  if (p < 1) e.refuse("expected a p of 1 or more, got ", p);
  if (p <= 2 && !axes.empty()) return e.reduce(p == 1 ? Reduction::l1 : Reduction::l2, x, axes, true);
  const int magnitude = e.pointwise(Pointwise::abs, {x});
  if (axes.empty()) return magnitude;
  const int sum = e.reduce(Reduction::sum, e.pointwise(Pointwise::pow, magnitude, p), axes, true);
  return e.pointwise(Pointwise::pow, sum, 1.0 / p);
}

template <bool product>
int cumulative(Expansion& e) {
  const int x = e.input(0);
  const double axis = e.number(1);
  CumulativeProblem problem = {.product = product};
  problem.exclusive = e.attributes().boolean("exclusive", false);
  problem.reverse = e.attributes().boolean("reverse", false);
  if (!(axis >= -e.rank(x) && axis < e.rank(x))) e.refuse("there is no axis ", axis, " among ", e.rank(x));
  problem.dim = e.axis_of(static_cast<std::int64_t>(axis), e.rank(x));
  const DType dtype = e.dtype(x);
  // Whole numbers wrap, so that those of other widths are sums of 64 bits without the upper ones.
  const bool known = dtype == DType::f64 || dtype == DType::i32;
  const DType compute = known ? dtype : is_float(dtype) ? DType::f32 : DType::i64;
  // From the end, what is behind a count changes nothing.
  const int count = problem.reverse ? e.count_of(x, problem.dim) : -1;
  int all = e.cast(x, compute);
  if (count >= 0) all = e.filled(all, problem.dim, e.scalar(product ? 1 : 0, compute));
  return e.cast(e.counted(e.solve(problem, e.shape(x), compute, {all}), problem.dim, count), dtype);
}

constexpr OpRow reduce_rows[] = {{"ArgMax", place_of<Reduction::arg_max>},
                                 {"ArgMin", place_of<Reduction::arg_min>},
                                 {"CumProd", cumulative<true>},
                                 {"CumSum", cumulative<false>},
                                 {"GlobalAveragePool", global_average},
                                 {"GlobalLpPool", global_lp},
                                 {"GlobalMaxPool", global_max},
                                 {"ReduceL1", reduce<Reduction::l1>},
                                 {"ReduceL2", reduce<Reduction::l2>},
                                 {"ReduceLogSum", reduce<Reduction::log_sum>},
                                 {"ReduceLogSumExp", reduce<Reduction::log_sum_exp>},
                                 {"ReduceMax", reduce<Reduction::max>},
                                 {"ReduceMean", reduce<Reduction::mean>},
                                 {"ReduceMin", reduce<Reduction::min>},
                                 {"ReduceProd", reduce<Reduction::prod>},
                                 {"ReduceSum", reduce<Reduction::sum>},
                                 {"ReduceSumSquare", reduce<Reduction::sum_square>}};

}  // namespace

std::span<const OpRow> reduce_ops() { return reduce_rows; }

}  // namespace lamina::detail
