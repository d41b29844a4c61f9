#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/compile/passes.h"
#include "lamina/kernel/device_description.h"
#include "lamina/layers/conv2d.h"
#include "lamina/ops/op.h"
#include "lamina/plan/plan.h"
#include "support/networks.h"

namespace lamina::test {

/// Of a graph in the making: nodes whose names are of no interest.
inline std::string next_name() {
  static int count = 0;
  return "n" + std::to_string(++count);
}
inline Value constant(Graph& g, Tensor value) {
  return g.add(next_name(), Constant(std::move(value)), std::initializer_list<Value>{});
}
inline Value op(Graph& g, const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
  return g.add(next_name(), std::make_shared<Op>(what, std::move(attributes)), inputs);
}
inline Value integers(Graph& g, const std::vector<std::int64_t>& values) {
  return constant(g, Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}));
}
inline Value reshaped(Graph& g, Value x, const std::vector<std::int64_t>& shape) {
  return op(g, "Reshape", {x, integers(g, shape)});
}
inline Value transposed(Graph& g, Value x, const std::vector<std::int64_t>& order) {
  return op(g, "Transpose", {x}, {{"perm", order}});
}
/// A product with a matrix, and what is added.
inline Value multiplied(Graph& g, Value x, std::int64_t in, std::int64_t out, unsigned seed) {
  const Value product = op(g, "MatMul", {x, constant(g, random_tensor({in, out}, seed))});
  return op(g, "Add", {product, constant(g, random_tensor({out}, seed + 1))});
}

/// As MambaOut's blocks are exported, of images [N, side, side, 64] with the channels last: of a layer's rows some are
/// a gate, some stay and some go through a depthwise convolution; what stays and what comes back are joined.
inline Graph gated_network(std::int64_t side, std::int64_t kept = 40, int convolved = 24) {
  Graph g;
  const std::int64_t width = 64, gate = kept + convolved, all = gate + gate;
  Value x = g.input("x", {batch, side, side, width});
  const auto part = [&](Value of, std::int64_t from, std::int64_t to) {
    return op(g, "Slice", {of, integers(g, {from}), integers(g, {to}), integers(g, {-1})});
  };
  for (unsigned block = 0; block < 2; ++block) {
    const Value rows = multiplied(g, op(g, "LayerNormalization", {x, constant(g, random_tensor({width}, 3))}), width,
                                  all, 10 * block + 20);
    const Value turned = transposed(g, part(rows, gate + kept, all), {0, 3, 1, 2});
    Conv2d depthwise({.in = convolved, .out = convolved, .kernel = 3, .padding = 1, .groups = convolved});
    const Value back = transposed(g, g.add(next_name(), std::move(depthwise), turned), {0, 2, 3, 1});
    const Value joined = op(g, "Concat", {part(rows, gate, gate + kept), back}, {{"axis", std::int64_t{-1}}});
    const Value gated = op(g, "Mul", {op(g, "Gelu", {part(rows, 0, gate)}), joined});
    x = op(g, "Add", {x, multiplied(g, gated, gate, width, 10 * block + 25)});
  }
  g.output(x);
  randomize(g);
  return g;
}

/// A graph as it is before a pass.
inline detail::Program program_before(std::string_view end, const Graph& graph, const CompileOptions& options) {
  detail::Compilation compilation{graph, {}};
  compilation.plan->options = options;
  for (const detail::Pass& pass : detail::passes()) {
    if (pass.name == end) break;
    if (!pass.fuses || (options.fuse && !options.keep_all)) pass.run(compilation);
  }
  return std::move(compilation.program);
}

/// The operations that are left, each as "module: names of what it took in".
inline std::vector<std::string> fused(const Graph& graph, const DeviceDescription& device = describe(Device::cpu()),
                                      Precision precision = Precision::fp32) {
  CompileOptions options = {.device = device.device, .batch = 2, .precision = precision, .threads = 1};
  options.description = device;
  std::vector<std::string> result;
  const detail::Program program = program_before("formats", graph, options);
  for (const auto& operation : program.operations) {
    result.push_back(std::string(operation.module->op()) + ": " + operation.fused);
  }
  return result;
}

/// What a plan of a batch of `images` gives is what one with no step fused gives.
inline void expect_same_unfused(const Graph& graph, std::int64_t images, const std::vector<Tensor>& inputs) {
  Plan together = graph.compile({.batch = images, .threads = 1});
  Plan apart = graph.compile({.batch = images, .threads = 1, .fuse = false});
  const std::span<const Tensor> x = together.run(inputs), y = apart.run(inputs);
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t o = 0; o < x.size(); ++o) {
    ASSERT_EQ(x[o].shape(), y[o].shape());
    for (std::size_t i = 0; i < x[o].values<float>().size(); ++i) {
      ASSERT_NEAR(x[o].values<float>()[i], y[o].values<float>()[i], 1e-4f) << "output " << o << ", element " << i;
    }
  }
}

}  // namespace lamina::test
