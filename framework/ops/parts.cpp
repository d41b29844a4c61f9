#include "lamina/ops/parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::detail {

std::int64_t count_of(const Shape& shape, int first, int last) {
  return Shape(shape.extents().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)))
      .numel();
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t d = shape.rank(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<std::int64_t>(shape.extents()[d], 1);
  return strides;
}

void require_one_of(const Expansion& e, std::string_view what, const std::string& text,
                    const std::vector<std::string>& names) {
  if (std::ranges::find(names, text) == names.end())
    e.refuse("there is no ", what, ' ', quote(text), nearest_text(text, names));
}

int to_int(const Expansion& e, std::int64_t value) {
  if (!std::in_range<int>(value)) e.refuse("the number ", value, " is too large");
  return static_cast<int>(value);
}

int as_f32(Expansion& e, int node) {
  if (!is_float(e.dtype(node))) e.refuse("expected an operand of floats, got ", e.dtype(node));
  return e.cast(node, DType::f32);
}

Tensor known_f32(const Expansion& e, int i) { return e.constant(i).to(DType::f32); }

int pick(Expansion& e, int node, const std::vector<Picks>& picks, double fill) {
  const Shape from = e.shape(node);
  // Numbers that were put into a list, as exporters do with sizes: what of them is known stays so.
  const std::vector<int> parts = picks.size() == 1 && from.rank() == 1 ? e.numbers_joined(node) : std::vector<int>();
  if (!parts.empty() && !picks[0].places.empty() && std::ranges::min(picks[0].places) >= 0) {
    std::vector<int> chosen;
    for (std::int64_t place : picks[0].places) {
      auto part = parts.begin();
      for (; place >= e.shape(*part)[0]; ++part) place -= e.shape(*part)[0];
      chosen.push_back(e.slice(*part, 0, place, place + 1));
    }
    return e.join(std::move(chosen), 0);
  }
  const std::vector<std::int64_t> strides = row_major_strides(from);
  std::vector<std::int64_t> extents = extents_of(from);
  MoveProblem problem = {.axes = {}, .fill = fill};
  for (std::size_t d = 0; d < extents.size(); ++d) problem.axes.push_back({.extent = extents[d], .stride = strides[d]});
  for (const auto& [axis, places] : picks) {
    const auto d = static_cast<std::size_t>(axis);
    MoveProblem::Axis& one = problem.axes[d];
    one.extent = extents[d] = static_cast<std::int64_t>(places.size());
    one.offsets.clear();  // of an axis that is listed twice, the last counts
    for (const std::int64_t place : places) one.offsets.push_back(place < 0 ? -1 : place * strides[d]);
  }
  const Shape to = to_shape(extents);
  (void)to.numel();  // throws Error if there are more than can be counted
  return e.move(node, std::move(problem), to);
}

Picks places_of(const Expansion& e, int axis, std::int64_t begin, std::int64_t length, std::int64_t extent) {
  if (length > longest_list) e.refuse("an extent of ", length, " is too large");
  Picks result = {.axis = axis, .places = {}};
  for (std::int64_t i = begin; i < begin + length; ++i) result.places.push_back(i >= 0 && i < extent ? i : -1);
  return result;
}

int constant_of(Expansion& e, const std::vector<double>& values, Shape shape, DType dtype) {
  return e.constant_node(Tensor::from(values, shape).to(dtype));
}

int places_along(Expansion& e, int axis, int rank, std::int64_t count) {
  if (count > longest_list) e.refuse("an extent of ", count, " is too large");
  std::vector<std::int64_t> places(static_cast<std::size_t>(count)), shape(static_cast<std::size_t>(rank), 1);
  std::iota(places.begin(), places.end(), std::int64_t{0});
  shape[static_cast<std::size_t>(axis)] = count;
  return e.constant_node(Tensor::from(places, to_shape(shape)));
}

std::vector<int> axes_of(const Expansion& e, const std::vector<std::int64_t>& listed, int rank) {
  std::vector<int> axes;
  for (const std::int64_t axis : listed) {
    const int d = e.axis_of(axis, rank);
    if (std::ranges::find(axes, d) != axes.end()) e.refuse("axis ", axis, " is listed twice");
    axes.push_back(d);
  }
  return axes;
}

}  // namespace lamina::detail
