#pragma once

#include <cstring>
#include <random>

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

}  // namespace lamina::test
