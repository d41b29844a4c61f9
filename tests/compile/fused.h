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
