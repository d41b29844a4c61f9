#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

/// Graphs of quantised values.
namespace lamina::test {

inline Tensor scalar(float value) { return Tensor::from(std::vector<float>{value}, Shape{}); }

/// One number of a type of eight bits.
inline Tensor code(std::int64_t value, DType dtype) {
  return Tensor::from(std::vector<std::int64_t>{value}, Shape{}).to(dtype);
}

inline std::vector<std::int64_t> whole(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::i64);
  const auto values = wide.values<std::int64_t>();
  return {values.begin(), values.end()};
}

/// Adds nodes to a graph, and names them.
struct Build {
  Graph graph = {};
  int count = 0;

  Value constant(Tensor value) {
    return graph.add("c" + std::to_string(count++), std::make_shared<Constant>(std::move(value)), {});
  }
  Value op(const std::string& name, std::vector<Value> inputs, Attributes attributes = {}) {
    return graph.add(name + std::to_string(count++), std::make_shared<Op>(name, std::move(attributes)), inputs);
  }
  Value quantize(Value x, float scale, std::int64_t zero, DType dtype) {
    return op("QuantizeLinear", {x, constant(scalar(scale)), constant(code(zero, dtype))});
  }
  Value dequantize(Value x, float scale, std::int64_t zero, DType dtype) {
    return op("DequantizeLinear", {x, constant(scalar(scale)), constant(code(zero, dtype))});
  }
};

/// A step that a plan is to have on a CPU, and on a GPU.
struct Step {
  std::string_view on_cpu, on_gpu;
  Step(const char* on_both) : on_cpu(on_both), on_gpu(on_both) {}
  Step(const char* cpu, const char* gpu) : on_cpu(cpu), on_gpu(gpu) {}
};

/// Calls check(what the plan on that device gives, its steps) for each device that is here.
template <class Check>
void on_each(const Graph& graph, const Tensor& x, const Step& step, const Check& check) {
  for (const Device device : devices_here()) {
    const CompileOptions options = {.device = device, .batch = x.shape()[0]};
    const std::string summary = graph.plan_summary(options);
    EXPECT_NE(summary.find(device.is_cuda() ? step.on_gpu : step.on_cpu), std::string::npos) << summary;
    Plan plan = graph.compile(options);
    check(plan.run(x).to(Device::cpu()), summary);
  }
}

/// What needs no product has the very bits of its parts on a CPU, and a GPU has them too.
inline void expect_as_unfused(Build& build, Value y, const Tensor& x, const Step& step) {
  build.graph.output(y);
  Plan parts = build.graph.compile({.batch = 2, .keep_all = true});
  const std::vector<std::int64_t> expected = whole(parts.run(x));
  on_each(build.graph, x, step,
          [&](const Tensor& codes, const std::string& summary) { EXPECT_EQ(whole(codes), expected) << summary; });
}

/// Layers one after the other.
struct Block {
  Build build = {};
  int seed = 10;

  /// Of weights drawn for the sums of so many codes.
  Value conv(Value x, int in, int out, std::int64_t k, std::int64_t stride, std::int64_t groups, float gain = 1) {
    const int of_group = in / static_cast<int>(groups);
    const Tensor weights = random_codes({out, of_group, k, k}, DType::i8, static_cast<unsigned>(++seed));
    const float scale = gain * 0.4f / (static_cast<float>(of_group) * static_cast<float>(k));
    const std::int64_t p = k / 2;
    return build.op("Conv", {x, build.dequantize(build.constant(weights), scale / 30, 0, DType::i8)},
                    {{"strides", std::vector<std::int64_t>{stride, stride}},
                     {"pads", std::vector<std::int64_t>{p, p, p, p}},
                     {"group", groups}});
  }
  /// Rounded, and read again.
  Value code(Value x, float scale, std::int64_t zero) {
    return build.dequantize(build.quantize(x, scale, zero, DType::u8), scale, zero, DType::u8);
  }
};

}  // namespace lamina::test
