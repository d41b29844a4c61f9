// Interval arithmetic of the few numbers that runs make of counts.

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "lamina/layers/concat.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/module/run_once.h"
#include "lamina/ops/counts.h"
#include "lamina/ops/expansion.h"

namespace lamina::detail {
namespace {

using P = Pointwise;

/// Functions whose least and most value, of whole numbers, is found at the ends of each operand's range, or at -1, 0, 1
/// where these lie in it; of a remainder the dividend may be these numbers themselves. Of fractions between them a run
/// may find more, which its checks refuse.
constexpr P at_points[] = {P::abs,   P::add,   P::ceil, P::clip, P::div, P::floor, P::identity, P::max,
                           P::min,   P::mod,   P::mul,  P::neg,  P::pow, P::relu,  P::sub,      P::reciprocal,
                           P::round, P::where, P::sign, P::sqrt, P::exp, P::log};
/// Those of them that hold modulo 2^64, so that Range::far may be computed with them.
constexpr P exact_functions[] = {P::add, P::identity, P::mul, P::neg, P::sub};

constexpr double beyond = 0x1p53;  // where a double is not every whole number, and nothing is a size

Tensor all_of(std::int64_t number, const Shape& shape, DType dtype) {
  return Tensor::from(std::vector<std::int64_t>(static_cast<std::size_t>(shape.numel()), number), shape).to(dtype);
}

/// An operand at each of those points.
std::vector<Tensor> points_of(const Range& range, bool clamped) {
  const std::vector<double> least = to_numbers(range.least), most = to_numbers(range.most);
  std::vector<double> last;  // they may be the same
  std::vector<Tensor> points;
  for (const double near : {-beyond, -1.0, 0.0, 1.0, beyond}) {
    std::vector<double> point(least.size(), near);
    for (std::size_t i = 0; (clamped || std::abs(near) > 1) && i < point.size(); ++i)
      point[i] = std::clamp(std::clamp(near, least[i], most[i]), -beyond, beyond);
    if (point == std::exchange(last, point)) continue;
    points.push_back(Tensor::from(point, range.least.shape()).to(range.least.dtype()));
  }
  return points;
}

/// What a node is of operands that are each at all of their points.
Range at_all_points(const Network::Node& node, Pointwise function, const std::vector<Range>& in) {
  std::vector<std::vector<Tensor>> points;
  std::size_t all = 1;
  for (const Range& range : in) {
    points.push_back(points_of(range, function != P::mod || !points.empty()));
    all *= points.back().size();
  }
  std::vector<double> least(static_cast<std::size_t>(node.shape.numel()), beyond), most(least.size(), -beyond);
  for (std::size_t i = 0, rest = 0; i < all; rest = ++i) {
    std::vector<Tensor> operands;
    for (const std::vector<Tensor>& each : points) operands.push_back(each[rest % each.size()]), rest /= each.size();
    const std::vector<double> found = to_numbers(run_once(*node.module, operands, node.shape, node.dtype, 1));
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (!std::isfinite(found[k])) continue;  // what is divided by a count of 0 is no size
      least[k] = std::clamp(found[k], -beyond, least[k]), most[k] = std::clamp(found[k], most[k], beyond);
    }
  }
  return {Tensor::from(least, node.shape).to(node.dtype), Tensor::from(most, node.shape).to(node.dtype)};
}

}  // namespace

Range range_of(const Network::Node& node) {
  return node.constant.defined() ? Range{node.constant, node.constant, node.constant} : node.range;
}

Range range_of(const Network& network, const Network::Node& node) {
  constexpr std::int64_t most_numbers = 64;  // that are looked at as what a shape may depend on
  std::vector<Range> in;
  std::vector<Shape> shapes;
  bool exact = node.dtype == DType::i64, few = node.shape.numel() <= most_numbers && !node.inputs.empty();
  for (const int input : node.inputs) {
    in.push_back(range_of(network[input])), shapes.push_back(network[input].shape);
    few &= in.back().most.defined() && shapes.back().numel() <= most_numbers;
    exact &= in.back().far.defined() && network[input].dtype == DType::i64;
  }
  if (!few) return {};
  const Module& module = *node.module;
  const auto made = [&](Tensor Range::*of) {
    std::vector<Tensor> values;
    for (const Range& range : in) values.push_back(range.*of);
    return module.is_view(shapes) ? values[0].view(node.shape) : run_once(module, values, node.shape, node.dtype, 1);
  };
  Range range;
  const auto* reduction = dynamic_cast<const Fixed<ReduceProblem>*>(&module);
  const Reduction kind = reduction != nullptr ? reduction->problem({}).kind : Reduction::sum;
  if (const auto* chain = dynamic_cast<const Elementwise*>(&module); chain != nullptr && chain->chain().size() == 1) {
    const P function = chain->chain()[0].function;
    if (describe(function).truth) return {Tensor::zeros(node.shape, node.dtype), all_of(1, node.shape, node.dtype)};
    if (std::ranges::find(at_points, function) != std::end(at_points)) range = at_all_points(node, function, in);
    exact &= std::ranges::find(exact_functions, function) != std::end(exact_functions);
  } else if (module.is_view(shapes) || dynamic_cast<const Concat*>(&module) != nullptr ||
             dynamic_cast<const Fixed<MoveProblem>*>(&module) != nullptr ||
             (dynamic_cast<const Fixed<GatherProblem>*>(&module) != nullptr &&
              network[node.inputs[1]].constant.defined()) ||
             (reduction != nullptr && kind == Reduction::prod && std::ranges::min(to_numbers(in[0].least)) >= 0) ||
             (reduction != nullptr && kind < Reduction::prod)) {
    range = {made(&Range::least), made(&Range::most)};
    exact &= kind == Reduction::sum;
  }
  if (!range.most.defined()) return {};
  if (!std::ranges::equal(to_numbers(range.least), to_numbers(range.most), std::less_equal())) return {};
  if (!exact) return range;
  range.far = made(&Range::far);
  std::vector<std::int64_t> least = to_integers(range.least), most = to_integers(range.most);
  const std::vector<std::int64_t> far = to_integers(range.far);
  for (std::size_t i = 0; i < far.size(); ++i) {
    if (far[i] >= least[i] && far[i] <= most[i]) least[i] = most[i] = far[i];
  }
  return {Tensor::from(least, node.shape).to(node.dtype), Tensor::from(most, node.shape).to(node.dtype), range.far};
}

Range range_up_to(std::int64_t most, const Shape& shape, DType dtype, int node) {
  constexpr std::int64_t first_far = std::int64_t{1} << 61;
  std::mt19937_64 random(static_cast<std::uint64_t>(node));
  std::vector<std::int64_t> far(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t& number : far) number = first_far | static_cast<std::int64_t>(random() >> 3);
  return {Tensor::zeros(shape, dtype), all_of(most, shape, dtype),
          dtype == DType::i64 && most < first_far ? Tensor::from(far, shape) : Tensor()};
}

}  // namespace lamina::detail
