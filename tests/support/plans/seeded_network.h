#pragma once

#include <cmath>
#include <random>
#include <string_view>

#include "lamina/graph/networks.h"

namespace lamina::test {

/// Sets every parameter to the same values on every machine: those of the i-th, counted from 0, are drawn from a
/// minstd_rand with seed 1 + i. Weights are uniform and keep the variance of what they multiply; vectors (biases, and
/// the scales and variances of batch norms) lie in [0.5, 1.5].
inline void seed_parameters(Graph& graph) {
  unsigned seed = 1;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      if (parameter.dtype != DType::f32) continue;
      std::minstd_rand engine(seed++);
      Tensor value(parameter.shape);
      const bool vector = value.shape().rank() <= 1;
      const auto fan_in = static_cast<float>(vector ? 1 : value.numel() / value.shape()[0]);
      const float range = std::sqrt(3 / fan_in);
      for (float& v : value.values<float>()) {
        const float unit = static_cast<float>(engine()) / 2147483647.0f;
        v = vector ? 0.5f + unit : (unit * 2 - 1) * range;
      }
      node.module->set_parameter(parameter.name, value);
    }
  }
}

/// A ready-made network with such parameters.
inline Graph seeded_network(std::string_view name) {
  Graph graph = network(name);
  seed_parameters(graph);
  return graph;
}

}  // namespace lamina::test
