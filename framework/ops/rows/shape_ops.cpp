// Ops that change no element, and those whose result shapes and constants alone decide.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/counts/counted.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

using Extents = std::vector<std::int64_t>;

/// 0 takes the input's extent there, one -1 what is left.
int reshape(Expansion& e) {
  const int x = e.input(0);
  const Shape from = e.shape(x);
  const bool zero_is_zero = e.attributes().boolean("allowzero", false);
  const Expansion::Sizes given = e.sizes(1);
  Extents to = given.most;
  std::int64_t known = 1;
  std::vector<bool> kept(to.size(), false);
  auto rest = to.end();
  for (auto extent = to.begin(); extent != to.end(); ++extent) {
    if (*extent == 0 && !zero_is_zero) {
      const auto place = extent - to.begin();
      if (place >= e.rank(x)) e.refuse("there is no extent ", place, " in input ", from, " to keep");
      *extent = from[static_cast<int>(place)];
      kept[static_cast<std::size_t>(place)] = true;
    }
    if (*extent == -1) {
      if (rest != to.end()) e.refuse("expected one -1 at most");
      rest = extent;
      continue;
    }
    const auto product = checked_mul(known, *extent);
    if (*extent < 0 || !product) e.refuse("there is no extent ", *extent);
    known = *product;
  }
  if (rest != to.end()) {
    if (known == 0 || from.numel() % known != 0) e.refuse("cannot divide input ", from, " by ", known);
    *rest = from.numel() / known;
  }
  if (to_shape(to).numel() != from.numel()) e.refuse("cannot read ", from, " as ", to_shape(to));
  int result = e.reshape(x, to_shape(to));
  for (std::size_t i = 0; i < to.size(); ++i) {  // an extent that is said is one that a run must have
    const int d = static_cast<int>(i), count = e.count_of(result, d), before = kept[i] ? e.count_of(x, d) : -1;
    if (before >= 0 && count != before)
      e.refuse("axis ", d, " of the input has a count, which only a run knows, and would be another axis");
    if (given.made[i] >= 0) {
      result = e.sized(result, d, given.made[i]);
    } else if (count >= 0 && (given.most[i] > 0 || (kept[i] && before < 0))) {
      result = e.counted(result, d, e.check(count, {.expected = to[i]}));
    }
  }
  return result;
}

int flatten(Expansion& e) {
  const Shape& from = e.shape(e.input(0));
  const auto rank = static_cast<int>(from.rank());
  const std::int64_t axis = e.attributes().long_integer("axis", 1);
  if (axis < -rank || axis > rank) e.refuse("there is no axis ", axis, " in input ", from);
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  if (split == 1 && rank == 4) return e.add(Flatten(), {e.input(0)});  // which a Linear takes in
  return e.reshape(e.input(0),
                   {Shape(from.extents().first(split)).numel(), Shape(from.extents().subspan(split)).numel()});
}

int squeeze(Expansion& e) {
  const Shape& from = e.shape(e.input(0));
  std::vector<bool> drop(from.rank(), false);
  if (e.has(1)) {
    for (const std::int64_t axis : e.integers(1)) {
      const int place = e.axis_of(axis, static_cast<int>(from.rank()));
      if (from[place] != 1) e.refuse("axis ", axis, " of input ", from, " is not 1");
      drop[static_cast<std::size_t>(place)] = true;
    }
  } else {
    for (std::size_t d = 0; d < drop.size(); ++d) drop[d] = from.extents()[d] == 1;
  }
  Extents to;
  for (std::size_t d = 0; d < drop.size(); ++d) {
    if (!drop[d]) to.push_back(from.extents()[d]);
  }
  return e.reshape(e.input(0), to_shape(to));
}

int unsqueeze(Expansion& e) {
  Extents to = extents_of(e.shape(e.input(0)));
  const Extents given = e.integers(1);
  const auto rank = static_cast<int>(to.size() + given.size());
  std::vector<int> axes;
  for (const std::int64_t axis : given) axes.push_back(e.axis_of(axis, rank));
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) e.refuse("an axis was given twice");
  for (const int axis : axes) to.insert(to.begin() + axis, 1);
  return e.reshape(e.input(0), to_shape(to));
}

int whole_numbers(Expansion& e, const Extents& values, Shape shape) {
  return e.constant_node(Tensor::from(std::span<const std::int64_t>(values), shape));
}

int shape(Expansion& e) {
  const Extents all = extents_of(e.shape(e.input(0)));
  const auto rank = static_cast<std::int64_t>(all.size());
  const auto bound = [&](std::string_view name, std::int64_t fallback) {
    const std::int64_t given = e.attributes().long_integer(name, fallback);
    return std::clamp<std::int64_t>(given < 0 ? std::max(given, -rank) + rank : given, 0, rank);
  };
  const std::int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  std::vector<int> lengths;
  for (std::int64_t d = start; d < end; ++d) lengths.push_back(e.length(e.input(0), static_cast<int>(d)));
  return lengths.empty() ? whole_numbers(e, {}, {0}) : e.join(std::move(lengths), 0);
}

int size(Expansion& e) {
  int product = e.constant_node(Tensor::from(std::vector<std::int64_t>{1}, {1}));
  for (int d = 0; d < e.rank(e.input(0)); ++d)
    product = e.pointwise(Pointwise::mul, {product, e.length(e.input(0), d)});
  return e.reshape(product, {});
}

/// The same bits as elements of another type.
int bit_cast(Expansion& e) {
  const int x = e.input(0);
  const DType to = onnx_dtype(e.op(), e.attributes().integer("to", 0));
  if (size_of(to) != size_of(e.dtype(x))) e.refuse("elements of ", e.dtype(x), " have no bits for ", to);
  const auto run = [](auto in, auto out, const Execution&) { std::memcpy(out[0].raw(), in[0].raw(), in[0].bytes()); };
  return to == e.dtype(x) ? x : e.add(OnCpu(e.op(), e.shape(x), to, 0, run), {x});
}

/// The value is an attribute of numbers ("value"), of the type "dtype"; 0 of f32 if there is none.
int constant_of_shape(Expansion& e) {
  const Expansion::Sizes given = e.sizes(0);
  const Extents& extents = given.most;
  if (extents.size() > Shape::max_rank) e.refuse("expected a shape of at most ", Shape::max_rank, " extents");
  const std::string name = e.attributes().text("dtype", "f32");
  const auto dtype = find_dtype(name);
  if (!dtype) e.refuse("there is no type ", name);
  const auto numbers = e.attributes().numbers("value", {0});
  if (numbers.size() != 1) e.refuse("expected one value");
  const Shape to = to_shape(extents);
  MoveProblem problem;
  for (const std::int64_t extent : to) problem.axes.push_back({.extent = extent});
  int node = e.move(e.scalar(numbers[0], *dtype), std::move(problem), to);
  for (std::size_t d = 0; d < extents.size(); ++d) node = e.counted(node, static_cast<int>(d), given.made[d]);
  return node;
}

int range(Expansion& e) {
  const DType dtype = e.dtype(e.input(0));
  if (!e.known(e.input(1)).defined()) return counted_range(e);
  const double start = e.number(0), limit = e.number(1), step = e.number(2);
  const double count = std::ceil((limit - start) / step);
  if (!(step != 0) || !(std::abs(count) <= static_cast<double>(longest_list)))
    e.refuse("expected a range of at most ", longest_list, " numbers, from ", start, " to ", limit, " by ", step);
  if (dtype != DType::f32 && dtype != DType::f64) {
    Extents values;
    const std::int64_t first = e.integers(0)[0], by = e.integers(2)[0];
    std::int64_t value = first;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(std::max(count, 0.0)); ++i) {
      values.push_back(value);
      // Numbers near the last of 64 bits are counted in fewer: the one after the last may be beyond it.
      if (__builtin_add_overflow(value, by, &value)) break;
    }
    return e.constant_node(Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype));
  }
  std::vector<double> values;
  for (double i = 0; i < count; ++i) values.push_back(start + i * step);
  return e.constant_node(Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype));
}

/// 1 where row and column differ by k; elements of ONNX's type "dtype", or of the input's.
int eye_like(Expansion& e) {
  const Shape to = e.shape(e.input(0));
  if (to.rank() != 2) e.refuse("expected an input of rank 2, got ", to);
  if (to.numel() > longest_list) e.refuse("a matrix ", to, " is too large");
  const std::int64_t k = e.attributes().long_integer("k", 0);
  const DType dtype =
      e.attributes().has("dtype") ? onnx_dtype(e.op(), e.attributes().integer("dtype", 0)) : e.dtype(e.input(0));
  Tensor ones = Tensor::zeros(to, DType::u8);
  const std::int64_t columns = to[1];
  for (std::int64_t row = 0; row < to[0] && k > -to[0] && k < columns; ++row) {
    const std::int64_t column = row + k;
    if (column >= 0 && column < columns)
      ones.values<std::uint8_t>()[static_cast<std::size_t>(row * columns + column)] = 1;
  }
  int node = e.constant_node(ones.to(dtype));
  for (int d = 0; d < 2; ++d) node = e.counted(node, d, e.count_of(e.input(0), d));
  return node;
}

/// One of two operands. graph/resolve.cpp leaves out what only the other needs.
int choose(Expansion& e) {
  const int condition = e.input(0);
  if (e.dtype(condition) != DType::boolean || e.shape(condition).numel() != 1)
    e.refuse("expected a condition of one boolean, got ", e.dtype(condition), ' ', e.shape(condition));
  if (!e.known(condition).defined() && e.has(1) && e.has(2)) return choose_in_run(e);
  return e.input(e.number(0) != 0 ? 1 : 2);
}

constexpr OpRow shape_rows[] = {{"BitCast", bit_cast},   {"ConstantOfShape", constant_of_shape},
                                {"EyeLike", eye_like},   {"Flatten", flatten},
                                {"If", choose},          {"Range", range},
                                {"Reshape", reshape},    {"Shape", shape},
                                {"Size", size},          {"Squeeze", squeeze},
                                {"Unsqueeze", unsqueeze}};

}  // namespace

std::span<const OpRow> shape_ops() { return shape_rows; }

}  // namespace lamina::detail
