// Ops that take elements along one axis from places that a run computes: each says where its element j comes from.

#include "lamina/ops/rows/counts/places.h"

#include <algorithm>
#include <array>

#include "lamina/base/math.h"
#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

/// A node with operators, so that formulas of what a run computes read as formulas. A number is of the node's type.
/// Both sides of an operator must not make nodes: compilers differ in which comes first. Calls do, and lists in braces.
struct Term {
  Expansion* e;
  int node;

  Term with(Pointwise function, Term other) const { return {e, e->pointwise(function, {node, other.node})}; }
  Term with(Pointwise function, double number) const { return {e, e->pointwise(function, node, number)}; }
  Term to(Pointwise function) const { return {e, e->pointwise(function, {node})}; }
  Term as(DType dtype) const { return {e, e->cast(node, dtype)}; }
  Term at_most(auto other) const { return with(Pointwise::min, other); }
  Term at_least(auto other) const { return with(Pointwise::max, other); }
  Term operator+(auto other) const { return with(Pointwise::add, other); }
  Term operator-(auto other) const { return with(Pointwise::sub, other); }
  Term operator*(auto other) const { return with(Pointwise::mul, other); }
  Term operator/(auto other) const { return with(Pointwise::div, other); }
  Term operator<(auto other) const { return with(Pointwise::less, other); }
  Term operator-() const { return to(Pointwise::neg); }
};
/// of[1] where of[0], otherwise of[2].
Term choose(const std::array<Term, 3>& of) {
  return {of[0].e, of[0].e->pointwise(Pointwise::where, {of[0].node, of[1].node, of[2].node})};
}

Term whole(Expansion& e, std::int64_t number) { return {&e, e.constant_node(Tensor::from(std::vector{number}, {1}))}; }
Term value_of(Expansion& e, const Expansion::Number& number) {
  return number.made >= 0 ? Term{&e, number.made} : whole(e, number.most);
}
/// 0, 1, ..., room - 1.
Term counting(Expansion& e, std::int64_t room) { return {&e, places_along(e, 0, 1, room)}; }

/// A list, to broadcast along an axis of a node.
int along(Expansion& e, Term list, int node, int axis) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(e.rank(node)), 1);
  shape[static_cast<std::size_t>(axis)] = e.shape(list.node).numel();
  return e.reshape(list.node, to_shape(shape));
}

/// The number of elements, which a run checks: where nothing is left to repeat, none may be asked for.
Term count_made_of(Expansion& e, Term count, Term left, const CountRule& rule) {
  return {&e, e.check(e.join({count.node, choose({left < 1.0, whole(e, 0), count}).node}, 0), rule)};
}

/// The elements at places, each of which is clamped to the axis.
int taken(Expansion& e, int x, int axis, Term places) {
  const auto last = static_cast<double>(e.shape(x)[axis] - 1);
  const int all = e.uncounted(x, axis);
  return take(e, all, places.at_least(0.0).at_most(last).node, axis);
}

}  // namespace

int counted_slice(Expansion& e, int x, int axis, const Expansion::Number& start, const Expansion::Number& end,
                  std::int64_t step) {
  const std::int64_t extent = e.shape(x)[axis];
  if (step == 0 || extent > longest_list) e.refuse("cannot take a part of ", extent, " by steps of ", step);
  if (extent == 0) return x;
  const auto near = [&](std::int64_t place) { return std::clamp(place, -extent, extent); };
  const std::int64_t first = near(start.most), last = near(end.most);
  constexpr std::int64_t longest_step = std::int64_t{1} << 40;  // longer than any axis: longer ones do the same
  step = std::clamp(step, -longest_step, longest_step);
  const bool back = step < 0, is_known = start.made < 0;
  const auto pace = static_cast<double>(back ? -step : step);
  // From the front; what is beyond the axis is its end.
  const Term length = {&e, e.length(x, axis)}, high = back ? length - 1.0 : length;
  const auto bound = [&](const Expansion::Number& number, double low) {
    const Term place = value_of(e, number);
    return choose({place < 0.0, place + length, place}).at_least(low).at_most(high);
  };
  const Term begin = bound(start, 0), stop = bound(end, back ? -1 : 0);
  const Term count = ((back ? begin - stop : stop - begin).at_least(0.0) + (pace - 1)) / pace;

  std::int64_t reach = extent;  // from the first place to the end, at most
  if (is_known && first < 0) reach = back ? extent + first + 1 : -first;
  const std::int64_t to = end.least >= 0 ? last : extent + (end.made < 0 ? last : 0);
  if (is_known && first >= 0) reach = back ? std::min(first + 1, extent) : std::max<std::int64_t>(to - first, 0);
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
  if (std::ranges::min(sizes.most) < 0) e.refuse("there is no part of ", std::ranges::min(sizes.most), " elements");
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
  x = e.sized(x, axis, e.slice(bounds, 0, std::ssize(sizes.made), std::ssize(sizes.made) + 1));
  const Expansion::Number begin = bound(which), end = bound(which + 1);
  return counted_slice(e, x, axis, begin, end, 1);
}

int counted_pad(Expansion& e, int x, int axis, const Expansion::Number& before, const Expansion::Number& after,
                const std::string& mode, double fill) {
  const std::int64_t extent = e.shape(x)[axis];
  for (const std::int64_t pad : {before.least, before.most, after.least, after.most})
    if (pad < -longest_list || pad > longest_list) e.refuse("cannot pad an axis of ", extent, " by ", pad);
  const Term length = {&e, e.length(x, axis)}, b = value_of(e, before), a = value_of(e, after);
  const Term sum = length + b + a;
  // A length that is the same in every run, as of what is padded to a fixed length, is no count.
  const Expansion::Number all = e.whole_number(sum.node, 1);
  const bool fixed = all.made < 0, repeats = mode != "constant";
  const std::int64_t room = fixed ? all.most : std::max(all.most, least_capacity);
  if (room < 0 || room > longest_list || extent > longest_list) e.refuse("cannot have an extent of ", room);
  if (extent == 0 && repeats) e.refuse("there is nothing to repeat in input ", e.shape(x));
  // What negative pads cut off is gone before the others repeat what is left.
  const Term first = (-b).at_least(0.0), cut = a.at_most(0.0), left = length - first + cut;
  const CountRule rule = {.expected = fixed ? room : -1, .most = room, .enough = repeats};
  const Term count = repeats ? count_made_of(e, sum, left, rule) : Term{&e, e.check(sum.node, rule)};
  const auto counted = [&](int node) { return fixed ? node : e.counted(node, axis, count.node); };
  if (extent == 0) return counted(pick(e, x, {places_of(e, axis, 0, room, 0)}, fill));
  const Term j = counting(e, room), i = j - b.at_least(0.0);
  Term place = i;
  if (mode == "edge") place = i.at_least(0.0).at_most(left - 1.0);
  if (mode == "wrap") place = i.with(Pointwise::mod, left);
  if (mode == "reflect") {
    const Term period = (left - 1.0) * 2.0, folded = i.with(Pointwise::mod, period);
    place = choose({folded < left, folded, period - folded});
  }
  const Term there = (j < count).with(Pointwise::logical_and,
                                      i.with(Pointwise::greater_equal, 0.0).with(Pointwise::logical_and, i < left));
  int result = taken(e, x, axis, choose({j < count, first + place, whole(e, 0)}));
  if (mode == "constant")
    result = e.pointwise(Pointwise::where, {along(e, there, result, axis), result, e.scalar(fill, e.dtype(x))});
  return counted(result);
}

namespace {

/// Where each element lies in the input.
Term coordinates(Expansion& e, const CountedResize& how, Term j, Term length, Term scale, Term to) {
  const std::string& mode = how.transformation;
  const auto or_zero = [&](Term one, Term otherwise) {
    return choose({one.with(Pointwise::equal, 1.0), one * 0.0, otherwise});
  };
  if (mode == "asymmetric") return j / scale;
  const Term out = scale * length;
  const Term steps = j * (length - 1.0);
  if (mode == "align_corners") return or_zero(out, steps / (out - 1.0));
  const Term half = (j + 0.5) / scale - 0.5;
  if (mode == "pytorch_half_pixel") return or_zero(to, half);
  if (mode == "half_pixel_symmetric") return half + length * (-(to / out) + 1.0) / 2.0;
  if (mode != "half_pixel") e.lacks("coordinate_transformation_mode ", mode, " of a size that a run makes");
  return half;
}

/// The element that stands for a place, as `nearest` in taps.cpp.
Term nearest_of(Expansion& e, const std::string& rule, Term place) {
  const Term halves = (place * 2.0).to(Pointwise::round) / 2.0;
  const Term near = place.to(Pointwise::abs).at_least(1.0) * 0x1p-20;
  place = choose({(place - halves).to(Pointwise::abs).with(Pointwise::less_equal, near), halves, place});
  if (rule == "floor") return place.to(Pointwise::floor);
  if (rule == "ceil") return place.to(Pointwise::ceil);
  if (rule == "round_prefer_ceil") return (place + 0.5).to(Pointwise::floor);
  require_one_of(e, "nearest_mode", rule, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"});
  return (place - 0.5).to(Pointwise::ceil);
}

/// How much an element counts at that distance: a line from 1 to 0, or Keys' cubic.
Term weight_at(const CountedResize& how, Term distance) {
  const Term x = distance.to(Pointwise::abs);
  if (how.mode == "linear") return (-x + 1.0).at_least(0.0);
  const double a = how.cubic_a;
  const Term inner = (x * (a + 2) - (a + 3)) * x * x + 1.0;
  const Term outer = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
  return choose({x < 1.0, inner, choose({x < 2.0, outer, x * 0.0})});
}

}  // namespace

int counted_resize(Expansion& e, int x, int axis, const CountedResize& how) {
  const std::int64_t room = std::max(how.to.most, least_capacity);
  if (room > longest_list || e.shape(x)[axis] == 0) e.refuse("cannot resize ", e.shape(x), " to an extent of ", room);
  const Term length = {&e, e.length(x, axis)}, wide = length.as(DType::f64);
  const Term count = count_made_of(e, value_of(e, how.to), length, {.most = room, .enough = true}),
             many = count.as(DType::f64);
  const Term scale = how.scale >= 0 ? Term{&e, how.scale} : many / wide;
  const Term place = coordinates(e, how, counting(e, room).as(DType::f64), wide, scale, many);
  const auto at = [&](Term places) { return taken(e, x, axis, places.at_most(wide - 1.0).as(DType::i64)); };
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
