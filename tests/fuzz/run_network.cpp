#include "fuzz/run_network.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "lamina/ops/op.h"
#include "lamina/plan/plan.h"

namespace lamina::fuzz {
namespace {

constexpr std::int64_t open_extent = 5;                   // what is put in place of one that the graph leaves open
constexpr std::int64_t max_elements = 1 << 12;            // of an input
constexpr std::size_t max_memory = std::size_t{1} << 20;  // of a plan
constexpr std::size_t max_nodes = 200;

// A small error of an operand stays a small error of the result: comparing says something.
constexpr std::string_view continuous[] = {"adaptive_avg_pool2d",
                                           "add",
                                           "avg_pool2d",
                                           "batch_norm2d",
                                           "concat",
                                           "conv2d",
                                           "dropout",
                                           "flatten",
                                           "linear",
                                           "local_response_norm",
                                           "max_pool2d",
                                           "relu",
                                           "sigmoid",
                                           "softmax",
                                           "Add",
                                           "AveragePool",
                                           "Clip",
                                           "Concat",
                                           "Constant",
                                           "Conv",
                                           "ConvTranspose",
                                           "DepthToSpace",
                                           "Expand",
                                           "Flatten",
                                           "Gemm",
                                           "GlobalAveragePool",
                                           "GlobalMaxPool",
                                           "HardSigmoid",
                                           "HardSwish",
                                           "Identity",
                                           "LeakyRelu",
                                           "MatMul",
                                           "Max",
                                           "MaxPool",
                                           "Mean",
                                           "Min",
                                           "Mul",
                                           "Neg",
                                           "Pad",
                                           "PRelu",
                                           "ReduceMax",
                                           "ReduceMean",
                                           "ReduceMin",
                                           "ReduceSum",
                                           "Relu",
                                           "Reshape",
                                           "Sigmoid",
                                           "Slice",
                                           "Softmax",
                                           "SpaceToDepth",
                                           "Split",
                                           "Squeeze",
                                           "Sub",
                                           "Sum",
                                           "Tanh",
                                           "Tile",
                                           "Transpose",
                                           "Unsqueeze"};

/// Sums of small whole numbers are exact in whatever order they are taken.
Tensor whole_numbers(const Shape& shape, DType dtype) {
  Tensor tensor(shape);
  int i = 0;
  for (float& value : tensor.values<float>()) value = static_cast<float>(i++ * 5 % 7 - (dtype == DType::f32 ? 3 : 0));
  if (dtype == DType::boolean) {
    for (float& value : tensor.values<float>()) value = value > 2 ? 1.0f : 0.0f;
  }
  return dtype == DType::f32 ? tensor : tensor.to(dtype);
}

std::vector<Tensor> inputs_of(const Plan& plan) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < plan.input_shapes().size(); ++i) {
    inputs.push_back(whole_numbers(plan.input_shapes()[i], plan.input_dtypes()[i]));
  }
  return inputs;
}

/// The largest absolute value; nothing if there is one that is not finite.
std::optional<float> largest(const Tensor& tensor) {
  float most = 0;
  if (tensor.dtype() != DType::f32) return most;
  for (const float value : tensor.values<float>()) {
    if (!std::isfinite(value)) return std::nullopt;
    most = std::max(most, std::abs(value));
  }
  return most;
}

/// How large the numbers are that the outputs are made of; nothing if comparing two plans would say nothing.
std::optional<float> scale_of(const Graph& graph, const Plan& everything) {
  float scale = 1;
  const auto include = [&](std::optional<float> value) { scale = std::max(scale, value.value_or(HUGE_VALF)); };
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    if (std::ranges::find(continuous, node.module->op()) == std::end(continuous)) return std::nullopt;
    for (const auto& [key, attribute] : node.module->attributes()) {
      const auto* number = std::get_if<double>(&attribute);
      if (number != nullptr && !(*number >= 0 && *number < 100)) return std::nullopt;
    }
    for (const Module::Parameter& parameter : node.module->parameters()) include(largest(parameter.value));
    if (dynamic_cast<const Constant*>(node.module.get()) != nullptr) continue;
    include(largest(everything.activation(node.name)));
  }
  constexpr float most = 1e4f;
  return scale < most ? std::optional(scale) : std::nullopt;
}

void compare(const Tensor& result, const Tensor& plain, float scale, const std::string& name) {
  if (result.shape() != plain.shape() || result.dtype() != plain.dtype())
    broken("two plans give the same shapes and types");
  if (result.dtype() != DType::f32) return;
  const auto a = result.values<float>(), b = plain.values<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-4f * scale)) {
      broken("two plans give the same numbers: output " + name + ", element " + std::to_string(i) + ": " +
             std::to_string(a[i]) + " and " + std::to_string(b[i]) + " of a scale of " + std::to_string(scale));
    }
  }
}

/// Gives open inputs extents. False if they would be too large.
bool settle_shapes(const Graph& graph, CompileOptions& options) {
  for (const int index : graph.inputs()) {
    const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(index)];
    std::vector<std::int64_t> extents;
    std::int64_t elements = 1;
    bool settled = true;
    for (const std::int64_t extent : *node.shape) {
      extents.push_back(extent == batch ? options.batch : extent == open ? open_extent : extent);
      settled = settled && extent != open;
      if (extents.back() > max_elements || (elements *= extents.back()) > max_elements) return false;
    }
    if (!settled) options.input_shapes[node.name] = Shape(std::span<const std::int64_t>(extents));
  }
  return true;
}

}  // namespace

void run_network(const Graph& graph, std::size_t variant) {
  if (graph.nodes().size() > max_nodes) return;
  CompileOptions options{.batch = 1 + static_cast<std::int64_t>(variant % 2)};
  options.threads = variant % 16 == 3 ? 2 : 1;
  if (variant % 32 == 5) options.precision = Precision::bf16;
  if (!settle_shapes(graph, options)) return;
  try {
    if (graph.plan_memory(options).total() > max_memory) return;
  } catch (const UnboundInputs& unbound) {
    for (const std::string& name : unbound.names) {
      const Graph::Node& node = *graph.find(name);
      const auto open = options.input_shapes.find(name);
      Shape shape = open != options.input_shapes.end() ? open->second : *node.shape;
      if (shape.has_batch()) shape = shape.with_batch(options.batch);
      options.constants[name] = whole_numbers(shape, node.dtype);
    }
    if (graph.plan_memory(options).total() > max_memory) return;
  }
  Plan plan = graph.compile(options);
  const std::vector<Tensor> inputs = inputs_of(plan);
  std::vector<Tensor> results;
  for (const Tensor& output : plan.run(inputs)) results.push_back(output.clone());

  if (options.precision != Precision::fp32) return;
  CompileOptions plain = options;
  plain.threads = 1;
  plain.fuse = false;
  plain.algorithm = "direct";
  try {
    (void)graph.plan_memory(plain);
  } catch (const Error& error) {
    broken(std::string("what compiles fused compiles unfused too: ") + error.what());
  }
  plain.keep_all = true;  // also of nodes that nothing needs, which may be wrong
  Plan everything = graph.compile(plain);
  const auto expected = everything.run(inputs);
  const std::optional<float> scale = scale_of(graph, everything);
  for (std::size_t i = 0; scale && i < results.size(); ++i) {
    compare(results[i], expected[i], *scale, plan.output_names()[i]);
  }
}

}  // namespace lamina::fuzz
