#include "shown_layer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "lamina/base/names.h"

namespace lamina::app {
namespace {

bool is_any(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

bool is(const Graph::Node& node, std::initializer_list<std::string_view> ops) {
  return node.module != nullptr && is_any(node.module->op(), ops);
}

/// Lamina's own layer, and ONNX's.
bool is_convolution(const Graph::Node& node) { return is(node, {"conv2d", "Conv"}); }

/// The first convolution, with the ReLU right after it if there is one.
const Graph::Node& first_layer(const Graph& graph, const std::string& source) {
  const auto& nodes = graph.nodes();
  const auto conv = std::ranges::find_if(nodes, is_convolution);
  if (conv == nodes.end()) throw Error(source + ": the model has no convolution whose features could be shown");
  const auto place = static_cast<int>(conv - nodes.begin());
  const auto follows = [&](const Graph::Node& node) {
    return is(node, {"relu", "Relu"}) && node.inputs == std::vector<int>{place};
  };
  const auto relu = std::ranges::find_if(nodes, follows);
  return relu == nodes.end() ? *conv : *relu;
}

const Graph::Node& layer_called(const Graph& graph, const std::string& name, const std::string& source) {
  const Graph::Node* node = graph.find(name);
  if (node != nullptr && node->module != nullptr) return *node;
  std::vector<std::string> names;
  for (const Graph::Node& other : graph.nodes()) {
    if (other.module != nullptr && other.module->op() != "Constant") names.push_back(other.name);
  }
  throw Error(fmt::format("--layer: {} has no layer \"{}\"{} (lamina inspect {} lists them)", source, name,
                          detail::nearest_text(name, names), source));
}

/// Its weights, a parameter of Lamina's layer and an operand of ONNX's.
Tensor weights_of(const Graph& graph, const Graph::Node& convolution) {
  for (const Module::Parameter& parameter : convolution.module->parameters()) {
    if (parameter.name == "weight") return parameter.value;
  }
  if (convolution.inputs.size() < 2 || convolution.inputs[1] < 0) return {};
  const Graph::Node& operand = graph.nodes()[static_cast<std::size_t>(convolution.inputs[1])];
  return is(operand, {"Constant"}) ? operand.module->parameters()[0].value : Tensor();
}

Tensor filters_of(const Graph& graph, const Graph::Node& shown) {
  // Layers that keep the maps apart: what they show is still what the filters made.
  const Graph::Node* node = &shown;
  while (is(*node, {"relu", "Relu", "batch_norm2d", "BatchNormalization"}) && node->inputs[0] >= 0) {
    node = &graph.nodes()[static_cast<std::size_t>(node->inputs[0])];
  }
  if (!is_convolution(*node)) return {};
  const Tensor weights = weights_of(graph, *node);
  if (!weights.defined() || weights.shape().rank() != 4) return {};
  const std::int64_t channels = weights.shape()[1];
  // One channel may also be a depthwise layer's, whose filters are no pictures.
  const int input = node->inputs[0];
  const bool first = input >= 0 && graph.nodes()[static_cast<std::size_t>(input)].module == nullptr;
  const bool colours = channels == 3 || (channels == 1 && first);
  return colours ? weights.to(DType::f32) : Tensor();
}

}  // namespace

ShownLayer shown_layer(const Graph& graph, const std::string& name, const std::string& source) {
  const Graph::Node& node = name.empty() ? first_layer(graph, source) : layer_called(graph, name, source);
  return {node.name, filters_of(graph, node)};
}

}  // namespace lamina::app
