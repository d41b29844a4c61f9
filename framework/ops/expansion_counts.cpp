// What an Expansion does with values of which only a run knows how many elements they have.

#include <algorithm>
#include <limits>

#include "lamina/layers/concat.h"
#include "lamina/layers/views.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

/// With that number behind the count of an axis.
int filled_behind(Expansion& e, int node, int axis, int count, int number) {
  const int there = e.pointwise(Pointwise::less, {places_along(e, axis, e.rank(node), e.shape(node)[axis]), count});
  return e.pointwise(Pointwise::where, {there, node, number});
}

}  // namespace

int Expansion::least(DType dtype) {
  if (is_float(dtype)) return scalar(-std::numeric_limits<double>::infinity(), dtype);
  return constant_node(Tensor::from(std::vector{std::numeric_limits<std::int64_t>::min()}, {}).to(dtype));
}

int Expansion::greatest(DType dtype) {
  if (is_float(dtype)) return scalar(std::numeric_limits<double>::infinity(), dtype);
  return constant_node(Tensor::from(std::vector{std::numeric_limits<std::int64_t>::max()}, {}).to(dtype));
}

int Expansion::uncounted(int node, int axis) {
  if (count_of(node, axis) < 0) return node;
  const int result = add(Reshape(shape(node)), {node});
  network_.set_count(result, axis, -1);
  return result;
}

int Expansion::counted(int node, int axis, int count) {
  if (count < 0) return node;
  if (known(count).defined()) return slice(uncounted(node, axis), axis, 0, to_integers(known(count))[0]);
  // No constant any more, which others could take for all there is.
  if (known(node).defined()) node = filled_behind(*this, node, axis, count, scalar(0, dtype(node)));
  const int result = add(Reshape(shape(node)), {node});
  network_.set_count(result, axis, count);
  return result;
}

int Expansion::uncounted(int node) {
  for (int axis = 0; axis < rank(node); ++axis) node = uncounted(node, axis);
  return node;
}

int Expansion::filled(int node, int axis, int number) {
  const int count = count_of(node, axis);
  return count < 0 ? node : filled_behind(*this, uncounted(node, axis), axis, count, number);
}

int Expansion::with_zeros(int node) {
  for (int axis = 0; axis < rank(node); ++axis) {
    if (count_of(node, axis) >= 0) node = filled(node, axis, scalar(0, dtype(node)));
  }
  return node;
}

int Expansion::length(int node, int axis) {
  const int count = count_of(node, axis);
  return count >= 0 ? count : constant_node(Tensor::from(std::vector{shape(node)[axis]}, {1}));
}

int Expansion::sized(int node, int axis, int count) {
  if (count < 0 || count == count_of(node, axis)) return node;
  count = check(join({length(node, axis), count}, 0), {});
  return count_of(node, axis) < 0 && shape(node)[axis] == 1 ? node : counted(node, axis, count);
}

bool Expansion::differs_by_rows(int node) const {
  const Shape& rows = shape(node);
  const auto is_same = [&](const Module* made) { return dynamic_cast<const Reshape*>(made) != nullptr; };
  while (is_same(network_[node].module.get()) && shape(network_[node].inputs[0]) == rows)
    node = network_[node].inputs[0];
  const auto* move = dynamic_cast<const Fixed<MoveProblem>*>(network_[node].module.get());
  if (move == nullptr) return false;
  const std::vector<MoveProblem::Axis> axes = move->problem({}).axes;
  return axes.size() == rows.rank() && !axes.empty() && std::all_of(axes.begin() + 1, axes.end(), [](const auto& axis) {
           return axis.extent == 1 || (axis.stride == 0 && axis.offsets.empty());
         });
}

int Expansion::capped(int node, std::int64_t most) {
  if (known(node).defined()) return node;
  const Shape from = shape(node);
  if (!has_counts(node)) {
    if (is_float(dtype(node)) || from.numel() > longest_list)
      fail("CompileOptions::capacity: expected whole numbers, or a value with a count, got ", dtype(node), ' ', from);
    network_.set_range(node, range_up_to(most, from, dtype(node), node));
  }
  for (int axis = 0; axis < rank(node); ++axis) {
    const int count = count_of(node, axis);
    if (count < 0 || from[axis] <= most) continue;
    const std::int64_t room = std::max(most, least_capacity);
    node = counted(slice(uncounted(node, axis), axis, 0, room), axis, check(count, {.most = most}));
  }
  return node;
}

std::vector<int> Expansion::numbers_joined(int node) const {
  const Network::Node& made = network_[node];
  const auto single = [&](int part) { return shape(part).numel() == 1; };
  if (rank(node) != 1 || dynamic_cast<const Concat*>(made.module.get()) == nullptr) return {};
  return made.range.most.defined() || std::ranges::all_of(made.inputs, single) ? made.inputs : std::vector<int>();
}

std::vector<Expansion::Number> Expansion::whole_numbers(int i) {
  std::vector<Number> result;
  if (known(input(i)).defined()) {
    for (const std::int64_t number : integers(i)) result.push_back({number, number});
    return result;
  }
  const std::int64_t count = shape(input(i)).numel();
  const int flat = reshape(input(i), {count});
  for (std::int64_t place = 0; place < count && place <= longest_list; ++place)
    result.push_back(whole_number(slice(flat, 0, place, place + 1), i));
  return result;
}

Expansion::Number Expansion::whole_number(int node, int i) {
  const Range range = range_of(network_[node]);
  if (!range.most.defined())
    (void)constant(i, "; or the most that it may be, as CompileOptions::capacity");  // which throws
  const std::int64_t least = to_integers(range.least)[0], most = to_integers(range.most)[0];
  return {least, most, range.far.defined() && least == most ? -1 : cast(reshape(node, {1}), DType::i64)};
}

Expansion::Sizes Expansion::sizes(int i) {
  Sizes result;
  for (const Number& number : whole_numbers(i)) {
    const bool is_made = number.made >= 0;
    const std::int64_t room = is_made ? std::max(number.most, least_capacity) : number.most;
    const bool checked = !is_made || is_count(network_, number.made);
    result.most.push_back(room);
    result.made.push_back(checked ? number.made : check(number.made, {.most = room}));
  }
  return result;
}

}  // namespace lamina::detail
