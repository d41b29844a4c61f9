#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/views.h"

namespace lamina::test {

inline Tensor random_tensor(const Shape& shape, unsigned seed) {
  Tensor tensor(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(random);
  return tensor;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// The L2 norm of the difference over that of `expected`; of its elements, where `found` has more.
inline double relative_error(const Tensor& found, const Tensor& expected) {
  double error = 0, norm = 0;
  const auto a = found.values<float>(), b = expected.values<float>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / norm);
}

/// Every element within `tolerance` and that share of it.
inline void expect_close(const Tensor& a, const Tensor& b, float tolerance = 1e-5f) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::size_t i = 0; i < b.values<float>().size(); ++i) {
    const float x = a.values<float>()[i], y = b.values<float>()[i];
    ASSERT_TRUE(std::abs(x - y) <= tolerance + tolerance * std::abs(y)) << "element " << i << ": " << x << " vs " << y;
  }
}

/// Sets every parameter from a seeded generator.
inline void randomize(Graph& graph) {
  unsigned seed = 1;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      if (parameter.value.defined() && parameter.value.dtype() != DType::f32) continue;  // numbers that an op is given
      node.module->set_parameter(parameter.name, random_tensor(parameter.shape, seed++));
    }
  }
}

/// Two convolutions with ReLUs, a branch that reads the first convolution's raw output, dropout and flatten:
///   input [N, 3, 16, 16] -> conv1 -> relu1 -> drop -> conv2 -> relu2 -> flat (output)
///                              \-> side (output)
inline Graph branching_network() {
  Graph g;
  const Value x = g.input("input", {batch, 3, 16, 16});
  const Value c1 = g.add("conv1", Conv2d({.in = 3, .out = 8, .kernel = 3, .padding = 1}), x);
  const Value r1 = g.add("relu1", ReLU(), c1);
  const Value d = g.add("drop", Dropout(), r1);
  const Value c2 = g.add("conv2", Conv2d({.in = 8, .out = 4, .kernel = {3, 5}, .stride = 2, .bias = false}), d);
  const Value r2 = g.add("relu2", ReLU(), c2);
  const Value side = g.add("side", Conv2d({.in = 8, .out = 2, .kernel = 1}), c1);
  g.output(g.add("flat", Flatten(), r2));
  g.output(side);
  randomize(g);
  return g;
}

/// conv -> relu, as the shipped first layer.
inline Graph small_network() {
  Graph g;
  const Value x = g.input("input", {batch, 3, 12, 10});
  const Value c = g.add("features.0", Conv2d({.in = 3, .out = 5, .kernel = 3, .stride = 2, .padding = 1}), x);
  g.output(g.add("features.1", ReLU(), c));
  randomize(g);
  return g;
}

/// Copies its input, and calls `meanwhile` with it first, where there is one.
class Meddler : public Module {
 public:
  std::function<void(const Tensor&)> meanwhile;

  std::string_view op() const override { return "meddler"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation&) const override { return true; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override {
    struct Meddling : Operator {
      const Meddler* module;
      explicit Meddling(const Meddler* m) : module(m) {}
      void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution&) const override {
        if (module->meanwhile) module->meanwhile(inputs[0]);
        outputs[0].copy_from(inputs[0]);
      }
      std::string description() const override { return "meddles"; }
    };
    return std::make_unique<Meddling>(this);
  }
};

/// x [N, 4] -> the same, through a Meddler. The Graph must outlive its Plans.
inline Graph meddled_network(std::function<void(const Tensor&)> meanwhile) {
  auto meddler = std::make_shared<Meddler>();
  meddler->meanwhile = std::move(meanwhile);
  Graph graph;
  const Value x = graph.input("x", {batch, 4});
  graph.output(graph.add("m", meddler, {&x, 1}));
  return graph;
}

/// Calls f(0), f(1) to f(count - 1), each in a thread of its own.
template <class F>
void in_threads(std::size_t count, const F& f) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lamina::test
