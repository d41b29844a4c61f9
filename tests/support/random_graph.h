#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::test {

/// How large a graph's tensors are.
struct RandomExtents {
  std::vector<std::int64_t> of_input = {1, 2, 3, 4, 6}, of_weights = {1, 3, 4, 8};
  std::int64_t max_elements = 4096;  ///< of most tensors
  int max_steps = 12;
};

/// Such as fill the tiles of fast kernels, and such as do not.
inline RandomExtents wide_extents() {
  return {.of_input = {1, 2, 3, 5, 8, 16, 24, 33, 64},
          .of_weights = {1, 3, 8, 16, 40, 64},
          .max_elements = 1 << 16,
          .max_steps = 20};
}

/// A graph drawn at random, of what passes move, join, fuse and see under other shapes: one input, one or two outputs.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed, const RandomExtents& extents = {}) : random_(seed), extents_(extents) {
    std::vector<std::int64_t> shape;
    std::int64_t elements = 1;
    for (int d = between(2, 4); d > 0; --d) {
      const std::int64_t extent = one_of(extents.of_input);
      shape.push_back(elements * extent <= extents.max_elements ? extent : 1);
      elements *= shape.back();
    }
    input_shape = Shape(shape);
    values_.push_back({graph.input("x", input_shape), input_shape});
    for (int steps = between(3, extents.max_steps); steps > 0; --steps) step();
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
  /// Of sums of so many terms, which become neither large nor small.
  Value weights(const Shape& shape, std::int64_t terms) {
    Tensor values = random_tensor(shape, static_cast<unsigned>(++count_));
    for (float& value : values.values<float>()) value /= std::sqrt(static_cast<float>(terms));
    return constant(std::move(values));
  }
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
    const std::int64_t in = x.shape[-1], out = one_of(extents_.of_weights);
    if (out > in && x.shape.numel() / in * out > extents_.max_elements) return function(x);
    to.set(-1, out);
    const Drawn y = op("MatMul", {x.value, weights({in, out}, in)}, to);
    if (between(0, 1) == 0) op("Add", {y.value, numbers({out})}, to);
  }
  /// Rows that become pixels, whose channels are scaled.
  void make_pixels(const Drawn& x) {
    linear(x);
    scale(transposed(values_.back(), {0, 3, 1, 2}));
  }
  void attend(const Drawn& x) {
    Shape scores = x.shape;
    scores.set(-1, x.shape[-2]);
    if (scores.numel() > 4 * extents_.max_elements) return function(x);
    std::vector<std::int64_t> order = axes_of(x);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const Drawn turned = transposed(x, order);
    Drawn y = op("MatMul", {x.value, turned.value}, scores);
    if (between(0, 3) > 0) y = op("Mul", {y.value, weights({1}, x.shape[-1])}, scores);
    for (int masks = between(0, 2); masks > 0; --masks) {
      Shape mask = scores;
      for (int d = 0; d < static_cast<int>(scores.rank()); ++d) mask.set(d, between(0, 1) == 0 ? 1 : scores[d]);
      y = op("Add", {y.value, numbers(mask)}, scores);
    }
    y = op("Softmax", {y.value}, scores, {{"axis", std::int64_t{-1}}});
    op("MatMul", {y.value, x.value}, x.shape);
  }
  void function(const Drawn& x) {
    const char* names[] = {"Relu", "Neg", "Tanh", "Sigmoid", "HardSwish", "Gelu"};
    op(names[between(0, 5)], {x.value}, x.shape);
  }
  void scale(const Drawn& x) {
    Shape of = x.shape;
    for (int d = 0; d < static_cast<int>(of.rank()); ++d) of.set(d, between(0, 1) == 0 ? 1 : of[d]);
    op(between(0, 1) == 0 ? "Mul" : "Add", {x.value, numbers(of)}, x.shape);
  }
  /// Of any window, stride and groups; what often follows one comes behind it.
  void convolve(const Drawn& x) {
    const std::int64_t in = x.shape[1], kernel = one_of({1, 1, 3}), stride = one_of({1, 1, 2}), pad = kernel / 2;
    const std::int64_t groups = one_of({1, 1, in, in % 2 == 0 ? 2 : 1});
    const std::int64_t out = groups == in ? in * one_of({1, 1, 2}) : groups * one_of(extents_.of_weights);
    Shape to = {x.shape[0], out, (x.shape[2] - 1) / stride + 1, (x.shape[3] - 1) / stride + 1};
    if (to.numel() > extents_.max_elements) return function(x);
    std::vector<Value> inputs = {x.value, weights({out, in / groups, kernel, kernel}, in / groups * kernel * kernel)};
    if (between(0, 1) == 0) inputs.push_back(numbers({out}));
    const Drawn y = op("Conv", inputs, to,
                       {{"kernel_shape", std::vector{kernel, kernel}},
                        {"strides", std::vector{stride, stride}},
                        {"pads", std::vector{pad, pad, pad, pad}},
                        {"group", groups}});
    if (to == x.shape && between(0, 2) == 0) op("Add", {y.value, x.value}, to);
    if (between(0, 1) == 0) function(values_.back());
  }
  void pool(const Drawn& x) {
    const std::int64_t kernel = one_of({2, 3}), stride = one_of({1, 2}), pad = kernel / 2;
    const auto extent = [&](int d) { return (x.shape[d] + 2 * pad - kernel) / stride + 1; };
    op(between(0, 1) == 0 ? "MaxPool" : "AveragePool", {x.value}, {x.shape[0], x.shape[1], extent(2), extent(3)},
       {{"kernel_shape", std::vector{kernel, kernel}},
        {"strides", std::vector{stride, stride}},
        {"pads", std::vector{pad, pad, pad, pad}}});
  }
  /// As squeeze-and-excitation: channels, or whatever an axis is, by a function of their means.
  void excite(const Drawn& x) {
    Shape means = x.shape;
    std::vector<std::int64_t> axes;
    for (int d = 0; d < static_cast<int>(x.shape.rank()); ++d) {
      if (between(0, 1) == 0) means.set(d, 1), axes.push_back(d);
    }
    if (axes.empty()) return function(x);
    const Drawn mean = op("ReduceMean", {x.value, integers(axes)}, means);
    const Drawn weight = op("Sigmoid", {mean.value}, means);
    op("Mul", {x.value, weight.value}, x.shape);
  }
  void normalise(const Drawn& x) {
    const Shape last = {x.shape[-1]};
    op("LayerNormalization", {x.value, numbers(last), numbers(last)}, x.shape, {{"epsilon", 0.01}});
  }
  /// With another of the same shape, or the same along all other axes.
  void join(const Drawn& x) {
    for (std::size_t i = values_.size(); i-- > 0;) {
      const Drawn y = values_[i];
      if (y.shape == x.shape && between(0, 1) == 0) return void(op("Add", {x.value, y.value}, x.shape));
      const int axis = axis_of(x);
      Shape like = y.shape;
      if (like.rank() == x.shape.rank()) like.set(axis, x.shape[axis]);
      if (like == x.shape && x.shape.numel() + y.shape.numel() <= extents_.max_elements) return joined(x, y, axis);
    }
  }

  void step() {
    const std::size_t last = values_.size() - 1, back = static_cast<std::size_t>(between(0, 2));
    const Drawn x = values_[last - std::min(last, back)];
    switch (between(0, 16)) {
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
      case 10:
      case 11: return x.shape.rank() == 4 ? convolve(x) : function(x);
      case 12: return x.shape.rank() == 4 && x.shape[2] > 1 && x.shape[3] > 1 ? pool(x) : function(x);
      case 13: return excite(x);
      case 14: return normalise(x);
      case 15: return join(x);
      default: op("Add", {x.value, x.value}, x.shape);
    }
  }

  std::mt19937 random_;
  RandomExtents extents_;
  std::vector<Drawn> values_;
  int count_ = 0;
};

}  // namespace lamina::test
