// Graphs drawn at random of what passes move, join, fuse and see under other shapes: the plan gives what it gives with
// nothing fused, in the same shapes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina {
namespace {

using test::random_tensor;

class Drawing {
 public:
  explicit Drawing(unsigned seed) : random_(seed) {
    std::vector<std::int64_t> extents;
    for (int d = between(2, 4); d > 0; --d) extents.push_back(one_of({1, 2, 3, 4, 6}));
    input_shape = Shape(extents);
    values_.push_back({graph.input("x", input_shape), input_shape});
    for (int steps = between(3, 12); steps > 0; --steps) step();
    graph.output(values_.back().value);
    const auto other = static_cast<std::size_t>(between(0, static_cast<int>(values_.size()) - 1));
    if (other > 0 && other + 1 < values_.size()) graph.output(values_[other].value);
  }

  Graph graph;
  Shape input_shape;

 private:
  struct Drawn {
    Value value;
    Shape shape;
  };

  int between(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::int64_t one_of(const std::vector<std::int64_t>& choices) {
    return choices[static_cast<std::size_t>(between(0, static_cast<int>(choices.size()) - 1))];
  }
  int axis_of(const Drawn& x) { return between(0, static_cast<int>(x.shape.rank()) - 1); }

  static std::vector<std::int64_t> axes_of(const Drawn& x) {
    std::vector<std::int64_t> axes(x.shape.rank());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }

  std::string next_name() { return "n" + std::to_string(++count_); }
  Value constant(Tensor value) {
    return graph.add(next_name(), Constant(std::move(value)), std::initializer_list<Value>{});
  }
  Value numbers(const Shape& shape) { return constant(random_tensor(shape, static_cast<unsigned>(++count_))); }
  Value integers(const std::vector<std::int64_t>& values) {
    return constant(Tensor::from(std::span(values), {static_cast<std::int64_t>(values.size())}));
  }
  Drawn op(const char* what, std::vector<Value> inputs, const Shape& shape, Attributes attributes = {}) {
    values_.push_back({graph.add(next_name(), std::make_shared<Op>(what, std::move(attributes)), inputs), shape});
    return values_.back();
  }

  Drawn transposed(const Drawn& x, const std::vector<std::int64_t>& order) {
    Shape to = x.shape;
    for (std::size_t d = 0; d < order.size(); ++d) to.set(static_cast<int>(d), x.shape[static_cast<int>(order[d])]);
    return op("Transpose", {x.value}, to, {{"perm", order}});
  }
  Drawn slice(const Drawn& x, int axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
    Shape to = x.shape;
    to.set(axis, (std::abs(end - begin) + std::abs(step) - 1) / std::abs(step));
    if (end < 0) end = -1000;  // backwards to the beginning
    return op("Slice", {x.value, integers({begin}), integers({end}), integers({axis}), integers({step})}, to);
  }
  void joined(const Drawn& a, const Drawn& b, int axis) {
    Shape to = a.shape;
    to.set(axis, a.shape[axis] + b.shape[axis]);
    op("Concat", {a.value, b.value}, to, {{"axis", std::int64_t{axis}}});
  }

  void transpose(const Drawn& x) {
    std::vector<std::int64_t> order = axes_of(x);
    std::ranges::shuffle(order, random_);
    transposed(x, order);
  }
  void reshape(const Drawn& x) {
    std::vector<std::int64_t> extents;
    std::int64_t rest = x.shape.numel();
    while (rest > 1 && extents.size() < 4) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t d = 1; d <= rest; ++d) {
        if (rest % d == 0) divisors.push_back(d);
      }
      extents.push_back(one_of(divisors));
      rest /= extents.back();
    }
    extents.push_back(rest);
    std::ranges::shuffle(extents, random_);
    op("Reshape", {x.value, integers(extents)}, Shape(extents));
  }
  void roll(const Drawn& x) {
    const int axis = axis_of(x);
    const std::int64_t extent = x.shape[axis], cut = std::max<std::int64_t>(1, extent / 2);
    if (extent > 1) joined(slice(x, axis, cut, extent, 1), slice(x, axis, 0, cut, 1), axis);
  }
  /// Every second element and the others, side by side along any axis.
  void unshuffle(const Drawn& x) {
    const int axis = axis_of(x);
    const std::int64_t extent = x.shape[axis];
    if (extent % 2 == 0) joined(slice(x, axis, 1, extent, 2), slice(x, axis, 0, extent - 1, 2), axis_of(x));
  }
  void reverse(const Drawn& x) {
    const int axis = axis_of(x);
    slice(x, axis, x.shape[axis] - 1, -1, -1);
  }
  void linear(const Drawn& x) {
    Shape to = x.shape;
    const std::int64_t in = x.shape[-1], out = one_of({1, 3, 4, 8});
    to.set(-1, out);
    const Drawn y = op("MatMul", {x.value, numbers({in, out})}, to);
    if (between(0, 1) == 0) op("Add", {y.value, numbers({out})}, to);
  }
  /// Rows that become pixels, whose channels are scaled.
  void make_pixels(const Drawn& x) {
    linear(x);
    scale(transposed(values_.back(), {0, 3, 1, 2}));
  }
  void attend(const Drawn& x) {
    std::vector<std::int64_t> order = axes_of(x);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const Drawn turned = transposed(x, order);
    Shape scores = x.shape;
    scores.set(-1, x.shape[-2]);
    Drawn y = op("MatMul", {x.value, turned.value}, scores);
    for (int masks = between(0, 2); masks > 0; --masks) {
      Shape mask = scores;
      for (int d = 0; d < static_cast<int>(scores.rank()); ++d) mask.set(d, between(0, 1) == 0 ? 1 : scores[d]);
      y = op("Add", {y.value, numbers(mask)}, scores);
    }
    y = op("Softmax", {y.value}, scores, {{"axis", std::int64_t{-1}}});
    op("MatMul", {y.value, x.value}, x.shape);
  }
  void function(const Drawn& x) {
    const char* names[] = {"Relu", "Neg", "Tanh", "Sigmoid"};
    op(names[between(0, 3)], {x.value}, x.shape);
  }
  void scale(const Drawn& x) {
    Shape of = x.shape;
    for (int d = 0; d < static_cast<int>(of.rank()); ++d) of.set(d, between(0, 1) == 0 ? 1 : of[d]);
    op(between(0, 1) == 0 ? "Mul" : "Add", {x.value, numbers(of)}, x.shape);
  }

  void step() {
    const std::size_t last = values_.size() - 1, back = static_cast<std::size_t>(between(0, 2));
    const Drawn x = values_[last - std::min(last, back)];
    switch (between(0, 10)) {
      case 0: return transpose(x);
      case 1: return reshape(x);
      case 2: return roll(x);
      case 3: return unshuffle(x);
      case 4: return reverse(x);
      case 5: return function(x);
      case 6: return scale(x);
      case 7: return x.shape.rank() > 1 ? linear(x) : function(x);
      case 8: return x.shape.rank() > 1 ? attend(x) : function(x);
      case 9: return x.shape.rank() == 4 ? make_pixels(x) : function(x);
      default: op("Add", {x.value, x.value}, x.shape);
    }
  }

  std::mt19937 random_;
  std::vector<Drawn> values_;
  int count_ = 0;
};

TEST(RandomGraphs, PlansGiveWhatTheyGiveUnfused) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Drawing drawing(seed);
    const Tensor input = random_tensor(drawing.input_shape, seed);
    Plan together = drawing.graph.compile({.threads = 1});
    Plan apart = drawing.graph.compile({.threads = 1, .fuse = false});
    const std::span<const Tensor> x = together.run(std::span(&input, 1)), y = apart.run(std::span(&input, 1));
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t o = 0; o < x.size(); ++o) {
      ASSERT_EQ(x[o].shape(), y[o].shape()) << "graph " << seed << ", output " << o;
      float largest = 1;
      for (const float v : y[o].values<float>()) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < x[o].values<float>().size(); ++i) {
        ASSERT_NEAR(x[o].values<float>()[i], y[o].values<float>()[i], 1e-3f * largest)
            << "graph " << seed << ", output " << o << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lamina
