// Ops that take elements along one axis from places that a run computes: each says where its element j comes from.

#include "lamina/ops/rows/counts/places.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

/// A node with operators, so that formulas of what a run computes read as formulas. A number is of the node's type.
struct Term {
  Expansion* e;
  int node;

  Term with(Pointwise function, Term other) const { return {e, e->pointwise(function, {node, other.node})}; }
  Term with(Pointwise function, double number) const { return {e, e->pointwise(function, node, number)}; }
  Term to(Pointwise function) const { return {e, e->pointwise(function, {node})}; }
  Term as(DType dtype) const { return {e, e->cast(node, dtype)}; }
};
template <class B>
Term operator+(Term a, B b) {
  return a.with(Pointwise::add, b);
}
template <class B>
Term operator-(Term a, B b) {
  return a.with(Pointwise::sub, b);
}
template <class B>
Term operator*(Term a, B b) {
  return a.with(Pointwise::mul, b);
}
template <class B>
Term operator/(Term a, B b) {
  return a.with(Pointwise::div, b);
}
template <class B>
Term operator<(Term a, B b) {
  return a.with(Pointwise::less, b);
}
template <class B>
Term operator<=(Term a, B b) {
  return a.with(Pointwise::less_equal, b);
}
template <class B>
Term least(Term a, B b) {
  return a.with(Pointwise::min, b);
}
template <class B>
Term most(Term a, B b) {
  return a.with(Pointwise::max, b);
}
Term operator-(Term a) { return a.to(Pointwise::neg); }
Term choose(Term condition, Term a, Term b) {
  return {a.e, a.e->pointwise(Pointwise::where, {condition.node, a.node, b.node})};
}

Term whole(Expansion& e, std::int64_t number) { return {&e, e.constant_node(Tensor::from(std::vector{number}, {1}))}; }
Term value_of(Expansion& e, const Expansion::Number& number) {
  return number.made >= 0 ? Term{&e, number.made} : whole(e, number.at_most);
}
/// 0, 1, ..., room - 1.
Term counting(Expansion& e, std::int64_t room) { return {&e, places_along(e, 0, 1, room)}; }

/// A list, to broadcast along an axis of a node.
int along(Expansion& e, Term list, int node, int axis) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(e.rank(node)), 1);
  shape[static_cast<std::size_t>(axis)] = e.shape(list.node).numel();
  return e.reshape(list.node, to_shape(shape));
}

/// The elements at places, each of which is clamped to the axis.
int taken(Expansion& e, int x, int axis, Term places) {
  const auto last = static_cast<double>(e.shape(x)[axis] - 1);
  return take(e, e.uncounted(x, axis), least(most(places, 0.0), last).node, axis);
}

}  // namespace

int counted_slice(Expansion& e, int x, int axis, const Expansion::Number& start, const Expansion::Number& end,
                  std::int64_t step) {
  const std::int64_t extent = e.shape(x)[axis];
  if (extent == 0) return x;
  const auto near = [&](std::int64_t place) { return std::clamp(place, -extent, extent); };
  const std::int64_t first = near(start.at_most), last = near(end.at_most);
  if (step == 0) e.refuse("expected a step other than 0");
  constexpr std::int64_t longest_step = std::int64_t{1} << 40;  // longer than any axis: longer ones do the same
  step = std::clamp(step, -longest_step, longest_step);
  const bool back = step < 0, is_known = start.made < 0;
  const auto pace = static_cast<double>(back ? -step : step);
  // From the front; what is beyond the axis is its end.
  const Term length = {&e, e.length(x, axis)}, high = back ? length - 1.0 : length;
  const auto bound = [&](const Expansion::Number& number, double low) {
    const Term place = value_of(e, number);
    return least(most(choose(place < 0.0, place + length, place), low), high);
  };
  const Term begin = bound(start, 0), stop = bound(end, back ? -1 : 0);
  const Term count = (most(back ? begin - stop : stop - begin, 0.0) + (pace - 1)) / pace;

  std::int64_t reach = extent;  // from the first place to the end, at most
  if (is_known && first < 0) reach = back ? extent + first + 1 : -first;
  if (is_known && first >= 0) {
    const bool from_back = std::min(end.at_most, end.at_none) < 0;
    const std::int64_t to = !from_back ? near(end.bound) : extent + (end.made < 0 ? last : 0);
    reach = back ? std::min(first + 1, extent) : std::max<std::int64_t>(to - first, 0);
  }
  const std::int64_t room = std::max(ceil_div(reach, back ? -step : step), least_capacity);
  int part = 0;
  if (is_known && first >= 0 && !back) {
    Picks picks = {.axis = axis, .places = {}};
    for (std::int64_t j = 0; j < room; ++j)
      picks.places.push_back(first < extent && j * step < extent - first ? first + j * step : -1);
    part = pick(e, e.uncounted(x, axis), {picks});
  } else {
    part = taken(e, x, axis, counting(e, room) * static_cast<double>(step) + begin);
  }
  return e.counted(part, axis, e.check(count.node, {.most = room}));
}

int counted_part(Expansion& e, int x, int axis, const Expansion::Sizes& sizes, std::int64_t which) {
  if (which < 0 || which >= std::ssize(sizes.made)) e.refuse("there is no output ", which);
  // Where each part begins, and the last one ends: once for all outputs.
  const int bounds = e.once([&] {
    std::vector<int> sums = {whole(e, 0).node};
    for (std::size_t i = 0; i < sizes.made.size(); ++i) {
      const Term size = sizes.made[i] >= 0 ? Term{&e, sizes.made[i]} : whole(e, sizes.most[i]);
      sums.push_back((Term{&e, sums.back()} + size).node);
    }
    return e.join(std::move(sums), 0);
  });
  const auto bound = [&](std::int64_t i) { return e.whole_number(e.slice(bounds, 0, i, i + 1), 1); };
  x = e.sized(x, axis, value_of(e, bound(std::ssize(sizes.made))).node);
  return counted_slice(e, x, axis, bound(which), bound(which + 1), 1);
}

int counted_pad(Expansion& e, int x, int axis, const Expansion::Number& before, const Expansion::Number& after,
                const std::string& mode, double fill) {
  const std::int64_t extent = e.shape(x)[axis];
  if (extent == 0) e.refuse("there is nothing in input ", e.shape(x), " to pad");
  for (const std::int64_t pad : {before.at_most, before.at_none, after.at_most, after.at_none})
    if (pad < -longest_list || pad > longest_list) e.refuse("cannot pad an axis of ", extent, " by ", pad);
  // A length that is the same in every run, as of what is padded to a fixed length, is no count.
  const std::int64_t at_most = extent + before.at_most + after.at_most,
                     at_none = (e.count_of(x, axis) >= 0 ? 0 : extent) + before.at_none + after.at_none;
  const bool fixed = at_most == at_none;
  const std::int64_t room = fixed ? at_most : std::max({at_most, at_none, least_capacity});
  if (room < 0 || room > longest_list) e.refuse("cannot have an extent of ", room);
  const Term length = {&e, e.length(x, axis)}, b = value_of(e, before), a = value_of(e, after);
  const Term all = length + b + a;
  const Term count = {&e, e.check(all.node, fixed ? CountRule{.expected = room} : CountRule{.most = room})};
  // What negative pads cut off is gone before the others repeat what is left.
  const Term first = most(-b, 0.0), left = length - first + least(a, 0.0);
  const Term j = counting(e, room), i = j - most(b, 0.0);
  Term place = i;
  if (mode == "edge") place = least(most(i, 0.0), left - 1.0);
  if (mode == "wrap") place = i.with(Pointwise::mod, left);
  if (mode == "reflect") {
    const Term period = (left - 1.0) * 2.0, folded = i.with(Pointwise::mod, period);
    place = choose(folded < left, folded, period - folded);
  }
  const Term there = (j < count).with(Pointwise::logical_and,
                                      i.with(Pointwise::greater_equal, 0.0).with(Pointwise::logical_and, i < left));
  int result = taken(e, x, axis, choose(j < count, first + place, whole(e, 0)));
  if (mode == "constant")
    result = e.pointwise(Pointwise::where, {along(e, there, result, axis), result, e.scalar(fill, e.dtype(x))});
  return fixed ? result : e.counted(result, axis, count.node);
}

namespace {

/// Where each element lies in the input.
Term coordinates(Expansion& e, const CountedResize& how, Term j, Term length, Term scale, Term to) {
  const std::string& mode = how.transformation;
  const auto or_zero = [&](Term one, Term otherwise) {
    return choose(one.with(Pointwise::equal, 1.0), one * 0.0, otherwise);
  };
  if (mode == "asymmetric") return j / scale;
  const Term out = scale * length;
  if (mode == "align_corners") return or_zero(out, j * (length - 1.0) / (out - 1.0));
  const Term half = (j + 0.5) / scale - 0.5;
  if (mode == "pytorch_half_pixel") return or_zero(to, half);
  if (mode == "half_pixel_symmetric") return half + length / 2.0 * (-(to / out) + 1.0);
  if (mode != "half_pixel") e.lacks("coordinate_transformation_mode ", mode, " of a size that a run makes");
  return half;
}

/// The element that stands for a place, as `nearest` in taps.cpp.
Term nearest_of(Expansion& e, const std::string& rule, Term place) {
  const Term halves = (place * 2.0).to(Pointwise::round) / 2.0;
  const Term near = most(place.to(Pointwise::abs), 1.0) * 0x1p-20;
  place = choose((place - halves).to(Pointwise::abs) <= near, halves, place);
  if (rule == "floor") return place.to(Pointwise::floor);
  if (rule == "ceil") return place.to(Pointwise::ceil);
  if (rule == "round_prefer_ceil") return (place + 0.5).to(Pointwise::floor);
  require_one_of(e, "nearest_mode", rule, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"});
  return (place - 0.5).to(Pointwise::ceil);
}

/// How much an element counts at that distance: a line from 1 to 0, or Keys' cubic.
Term weight_at(const CountedResize& how, Term distance) {
  const Term x = distance.to(Pointwise::abs);
  if (how.mode == "linear") return most(-x + 1.0, 0.0);
  const double a = how.cubic_a;
  const Term inner = (x * (a + 2) - (a + 3)) * x * x + 1.0;
  const Term outer = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
  return choose(x <= 1.0, inner, choose(x < 2.0, outer, x * 0.0));
}

}  // namespace

int counted_resize(Expansion& e, int x, int axis, const CountedResize& how) {
  const std::int64_t room = std::max(how.to.bound, least_capacity);
  if (room > longest_list || e.shape(x)[axis] == 0) e.refuse("cannot resize ", e.shape(x), " to an extent of ", room);
  const Term count = {&e, e.check(value_of(e, how.to).node, {.most = room})}, many = count.as(DType::f64);
  const Term wide = Term{&e, e.length(x, axis)}.as(DType::f64);
  const Term scale = how.scale >= 0 ? Term{&e, how.scale} : many / wide;
  const Term place = coordinates(e, how, counting(e, room).as(DType::f64), wide, scale, many);
  const auto at = [&](Term places) { return taken(e, x, axis, least(places, wide - 1.0).as(DType::i64)); };
  if (how.mode == "nearest") return e.counted(at(nearest_of(e, how.nearest, place)), axis, count.node);
  const Term left = place.to(Pointwise::floor);
  const int first = how.mode == "cubic" ? -1 : 0;
  int sum = -1;
  for (int tap = first; tap < 2 - first; ++tap) {
    const Term where = left + static_cast<double>(tap);
    const int part = e.cast(at(where), DType::f32);
    const int term =
        e.pointwise(Pointwise::mul, {part, along(e, weight_at(how, where - place).as(DType::f32), part, axis)});
    sum = sum < 0 ? term : e.pointwise(Pointwise::add, {sum, term});
  }
  const DType dtype = e.dtype(x);
  return e.counted(e.cast(is_float(dtype) ? sum : e.pointwise(Pointwise::round, {sum}), dtype), axis, count.node);
}

}  // namespace lamina::detail
