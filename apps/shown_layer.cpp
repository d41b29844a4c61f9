#include "shown_layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/graph/photographs.h"
#include "words.h"

namespace lamina::app {
namespace {

bool is(const Graph::Node& node, std::initializer_list<std::string_view> ops) {
  return node.module != nullptr && std::ranges::find(ops, node.module->op()) != ops.end();
}

/// Lamina's own layer, and ONNX's.
bool is_convolution(const Graph::Node& node) { return is(node, {"conv2d", "Conv"}); }
bool is_norm(const Graph::Node& node) { return is(node, {"batch_norm2d", "BatchNormalization"}); }

bool is_in_front(const Graph::Node& node) { return node.name.find(of_photographs) != std::string::npos; }

/// The model's first convolution, with the ReLU right after it if there is one.
const Graph::Node& first_layer(const Graph& graph, const std::string& source) {
  const auto& nodes = graph.nodes();
  const auto conv =
      std::ranges::find_if(nodes, [](const auto& node) { return is_convolution(node) && !is_in_front(node); });
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
  detail::fail("--layer: ", source, " has no layer \"", name, '"', nearest_nodes(name, names), " (lamina inspect ",
               source, " lists them)");
}

/// What a node reads; null where it reads nothing there.
const Graph::Node* before(const Graph& graph, const Graph::Node& node, std::size_t place = 0) {
  const bool known = node.inputs.size() > place && node.inputs[place] >= 0;
  return known ? &graph.nodes()[static_cast<std::size_t>(node.inputs[place])] : nullptr;
}

/// Its weights or bias, a parameter of Lamina's layer and a constant operand of ONNX's; else undefined.
Tensor operand_of(const Graph& graph, const Graph::Node& node, std::string_view name, std::size_t place) {
  for (const Module::Parameter& parameter : node.module->parameters()) {
    if (parameter.name == name) return parameter.value;
  }
  const Graph::Node* operand = before(graph, node, place);
  return operand != nullptr && is(*operand, {"Constant"}) ? operand->module->parameters()[0].value : Tensor();
}

using Field = std::optional<ReceptiveField>;

/// Of a convolution or a pooling, by the attributes of Lamina's layers or ONNX's; none of other layers.
Field window_of_layer(const Graph::Node& node, std::span<const Shape> inputs) {
  const bool convolution = is_convolution(node);
  if (!convolution && !is(node, {"max_pool2d", "avg_pool2d", "MaxPool", "AveragePool"})) return {};
  const Attributes attributes = node.module->attributes();
  AttributeReader reader(attributes);
  const auto either = [&](const char* ours, const char* onnx, Size2d fallback) {
    return reader.size(reader.has(ours) ? ours : onnx, fallback);
  };
  if (reader.text("auto_pad", "NOTSET") != "NOTSET") return {};
  Size2d kernel = 0;
  if (!convolution) {
    kernel = either("kernel", "kernel_shape", 0);
  } else if (!node.module->parameters().empty()) {
    const Shape& weight = node.module->parameters()[0].shape;
    kernel = {static_cast<int>(weight[2]), static_cast<int>(weight[3])};
  } else if (inputs.size() > 1 && inputs[1].rank() == 4) {
    kernel = {static_cast<int>(inputs[1][2]), static_cast<int>(inputs[1][3])};
  }
  if (kernel.height == 0) return {};
  const Size2d dilation = either("dilation", "dilations", 1);
  const auto extent = [](int taps, int apart) {  // shapes were inferred: it fits the padded input
    return static_cast<int>(std::min<std::int64_t>(std::int64_t{taps - 1} * apart + 1, 1 << 24));
  };
  ReceptiveField field = {.size = {extent(kernel.height, dilation.height), extent(kernel.width, dilation.width)},
                          .stride = either("stride", "strides", 1)};
  // ONNX pads above, left, below and right, one by one.
  const std::vector<std::int64_t> pads = reader.integers(reader.has("padding") ? "padding" : "pads", {0, 0});
  if (pads.size() < 2) return {};
  field.top = -static_cast<int>(pads[0]), field.left = -static_cast<int>(pads[1]);
  return field;
}

/// What places of maps with zeros around see of those maps; nothing for other ways to pad.
Field window_of_pad(const Graph& graph, const Graph::Node& node) {
  if (!is(node, {"Pad"}) || node.inputs.size() < 2 || node.inputs.size() > 3) return {};
  const Tensor pads = operand_of(graph, node, "pads", 1), value = operand_of(graph, node, "value", 2);
  const Attributes attributes = node.module->attributes();
  AttributeReader reader(attributes);
  if (reader.text("mode", "constant") != "constant" || !pads.defined() || pads.dtype() != DType::i64) return {};
  const bool zero = !value.defined() || (value.dtype() == DType::f32 && value.values<float>()[0] == 0);
  const std::span<const std::int64_t> extents = pads.values<std::int64_t>();
  if (!zero || extents.size() != 8 || extents[2] != std::clamp<std::int64_t>(extents[2], 0, 1 << 20) ||
      extents[3] != std::clamp<std::int64_t>(extents[3], 0, 1 << 20)) {
    return {};
  }
  return ReceptiveField{.top = -static_cast<int>(extents[2]), .left = -static_cast<int>(extents[3])};
}

/// The axes of what a Transpose of pictures reads, in the order that it writes them; of other nodes none.
std::vector<std::int64_t> turned(const Graph::Node& node) {
  if (!is(node, {"Transpose"})) return {};
  const Attributes attributes = node.module->attributes();
  std::vector<std::int64_t> order = AttributeReader(attributes).integers("perm", {});
  return order.size() == 4 ? order : std::vector<std::int64_t>();
}

/// Filters and bias, where the filters can be looked at.
void find_filters(const Graph& graph, const Graph::Node& shown, ShownLayer& layer) {
  // Layers that keep the maps apart: what they show is still what the filters made.
  const Graph::Node* node = &shown;
  for (; before(graph, *node) != nullptr && (is_norm(*node) || is(*node, {"relu", "Relu"}));
       node = before(graph, *node)) {
    layer.normalised = layer.normalised || is_norm(*node);
  }
  if (!is_convolution(*node)) return;
  const Tensor weights = operand_of(graph, *node, "weight", 1), bias = operand_of(graph, *node, "bias", 2);
  if (!weights.defined() || weights.shape().rank() != 4) return;
  const std::int64_t channels = weights.shape()[1];
  // One channel may also be a depthwise layer's, whose filters are no pictures.
  const bool first = is_photograph(graph, before(graph, *node));
  const bool colours = channels == 3 || (channels == 1 && first);
  if (colours) layer.filters = weights.to(DType::f32);
  if (colours && first) layer.field = window_of_layer(*node, std::array{Shape(), weights.shape()});
  if (bias.defined()) layer.bias = bias.to(DType::f32);
}

/// Of `outer` over maps whose places see `inner`; none where the numbers are beyond those of pictures.
Field through(const ReceptiveField& inner, const ReceptiveField& outer) {
  bool sensible = true;
  const auto scaled = [&](int offset, int stride, int base) {
    const std::int64_t value = base + std::int64_t{offset} * stride;
    sensible = sensible && std::abs(value) < (1 << 24);
    return sensible ? static_cast<int>(value) : 0;
  };
  const ReceptiveField result = {.size = {scaled(outer.size.height - 1, inner.stride.height, inner.size.height),
                                          scaled(outer.size.width - 1, inner.stride.width, inner.size.width)},
                                 .stride = {scaled(outer.stride.height, inner.stride.height, 0),
                                            scaled(outer.stride.width, inner.stride.width, 0)},
                                 .top = scaled(outer.top, inner.stride.height, inner.top),
                                 .left = scaled(outer.left, inner.stride.width, inner.left)};
  return sensible ? Field(result) : Field();
}

/// Of a sum or a row of both.
Field joined(const ReceptiveField& a, const ReceptiveField& b) {
  if (a.stride != b.stride) return {};
  ReceptiveField both = {.stride = a.stride, .top = std::min(a.top, b.top), .left = std::min(a.left, b.left)};
  both.size = {std::max(a.top + a.size.height, b.top + b.size.height) - both.top,
               std::max(a.left + a.size.width, b.left + b.size.width) - both.left};
  return both;
}

}  // namespace

std::string nearest_nodes(const std::string& name, const std::vector<std::string>& names) {
  const std::string wanted = lower(name);
  const auto holds = [&](const std::string& candidate) {
    const std::string text = lower(candidate);
    constexpr std::string_view between = "./:";
    std::size_t at = 0, begin = 0;
    while ((begin = wanted.find_first_not_of(between, begin)) != wanted.npos) {
      const std::size_t end = std::min(wanted.find_first_of(between, begin), wanted.size());
      at = text.find(wanted.substr(begin, end - begin), at);
      if (at == text.npos) return false;
      at += end - begin, begin = end;
    }
    return true;
  };
  std::vector<std::string> holding;
  std::ranges::copy_if(names, std::back_inserter(holding), holds);
  return detail::nearest_text(name, holding.empty() ? names : holding);
}

bool is_photograph(const Graph& graph, const Graph::Node* node) {
  std::array<std::int64_t, 4> axes = {0, 1, 2, 3};
  for (; node != nullptr && node->module != nullptr; node = before(graph, *node)) {
    const std::vector<std::int64_t> order = turned(*node);
    if (order.empty() && !is_in_front(*node)) return false;
    if (!order.empty())
      std::ranges::transform(axes, axes.begin(),
                             [&](std::int64_t axis) { return order.at(static_cast<std::size_t>(axis)); });
  }
  return node != nullptr && axes == std::array<std::int64_t, 4>{0, 1, 2, 3};
}

ShownLayer shown_layer(const Graph& graph, const std::string& name, const std::string& source) {
  const Graph::Node& node = name.empty() ? first_layer(graph, source) : layer_called(graph, name, source);
  ShownLayer layer = {.name = node.name, .filters = {}};
  find_filters(graph, node, layer);
  return layer;
}

std::optional<MadeOf> made_of(const Graph& graph, const std::string& name) {
  MadeOf made;
  const Graph::Node* node = graph.find(name);
  if (node != nullptr && is(*node, {"Mul"}) && node->inputs.size() == 2) {  // x times its own sigmoid
    for (const std::size_t i : {0U, 1U}) {
      const Graph::Node *x = before(graph, *node, i), *other = before(graph, *node, 1 - i);
      if (x == nullptr || other == nullptr || !is(*other, {"Sigmoid"}) || before(graph, *other) != x) continue;
      made.then = "SiLU", node = x;
      break;
    }
  } else if (node != nullptr && is(*node, {"relu", "Relu", "sigmoid", "Sigmoid", "Clip", "LeakyRelu", "HardSwish",
                                           "HardSigmoid", "Tanh", "Elu", "Gelu", "Mish", "Softplus"})) {
    made.then = node->module->op(), node = before(graph, *node);
  }
  const Graph::Node* norm = nullptr;
  if (node != nullptr && is_norm(*node)) norm = std::exchange(node, before(graph, *node));
  if (node == nullptr || node->module == nullptr || before(graph, *node) == nullptr) return {};
  const bool sum = is_convolution(*node);
  if (!sum && (norm != nullptr || !made.then.empty())) return {};
  if (sum) made.weights = operand_of(graph, *node, "weight", 1);
  if (sum && (!made.weights.defined() || made.weights.shape().rank() != 4)) return {};
  const Field window = window_of_layer(*node, std::array{Shape(), made.weights.shape()});
  if (!window) return {};
  made.window = *window, made.from = before(graph, *node)->name;
  // Zeros that a layer of its own puts around are as good as the convolution's own.
  const Field pad = sum ? window_of_pad(graph, *before(graph, *node)) : Field();
  if (const Field whole = pad ? through(*pad, *window) : Field();
      whole && before(graph, *before(graph, *node)) != nullptr) {
    made.window = *whole, made.from = before(graph, *before(graph, *node))->name;
  }
  made.how = sum ? "sum" : is(*node, {"max_pool2d", "MaxPool"}) ? "max" : "mean";
  if (!sum) return made;
  made.added = operand_of(graph, *node, "bias", 2);
  if (norm == nullptr) return made;
  const auto of_norm = [&](const char* what, std::size_t place) { return operand_of(graph, *norm, what, place); };
  made.norm = {of_norm("weight", 1), of_norm("bias", 2), of_norm("running_mean", 3), of_norm("running_var", 4)};
  for (const Tensor& part : made.norm) {
    if (!part.defined() || part.dtype() != DType::f32 || part.numel() != made.weights.shape()[0]) return {};
  }
  const Attributes attributes = norm->module->attributes();
  AttributeReader reader(attributes);
  made.epsilon = reader.number(reader.has("eps") ? "eps" : "epsilon", 1e-5);
  return made;
}

std::vector<Field> receptive_fields(const Graph& graph, const std::vector<Shape>& shapes) {
  const auto& nodes = graph.nodes();
  std::vector<Field> fields(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Graph::Node& node = nodes[i];
    if (shapes[i].rank() != 4) continue;
    if (node.module == nullptr) {
      fields[i] = ReceptiveField{};
      continue;
    }
    std::vector<Shape> inputs;
    for (const int from : node.inputs) inputs.push_back(from < 0 ? Shape() : shapes[static_cast<std::size_t>(from)]);
    try {
      const Field pad = window_of_pad(graph, node);
      if (const Field window = pad ? pad : window_of_layer(node, inputs); window) {
        const Field& below = fields[static_cast<std::size_t>(node.inputs[0])];
        if (below) fields[i] = through(*below, *window);
        continue;
      }
    } catch (const Error&) {
      continue;  // attributes of another meaning
    }
    if (!turned(node).empty()) {  // of maps with their channels last, in between
      fields[i] = fields[static_cast<std::size_t>(node.inputs[0])];
      continue;
    }
    // What keeps each place where it is: functions, sums, normalisations. A factor for each channel moves none either.
    bool known = true;
    for (std::size_t k = 0; k < inputs.size() && known; ++k) {
      if (inputs[k].rank() != 4 || inputs[k][2] * inputs[k][3] == 1) continue;
      const Field& below = fields[static_cast<std::size_t>(node.inputs[k])];
      known = below && inputs[k][2] == shapes[i][2] && inputs[k][3] == shapes[i][3];
      if (known) fields[i] = fields[i] ? joined(*fields[i], *below) : below;
      known = known && fields[i].has_value();
    }
    if (!known) fields[i].reset();
  }
  return fields;
}

}  // namespace lamina::app
