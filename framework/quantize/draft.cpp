#include "lamina/quantize/draft.h"

#include <algorithm>
#include <array>

#include "lamina/base/error.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/op.h"
#include "lamina/quantize/steps.h"
#include "lamina/tensor/matrices.h"

namespace lamina::detail {
namespace {

// What ops do with eight bits, by their names here and in ONNX.
constexpr std::string_view ends[] = {"Clip", "PRelu", "Relu", "relu"};
constexpr std::string_view carriers[] = {
    "Add",         "AveragePool",         "Celu",      "Concat",     "Elu",    "Gelu",    "GlobalAveragePool",
    "HardSigmoid", "HardSwish",           "LeakyRelu", "Mish",       "Mul",    "Sigmoid", "Swish",
    "Tanh",        "adaptive_avg_pool2d", "add",       "avg_pool2d", "concat", "sigmoid"};
constexpr std::string_view same[] = {"Dropout", "Flatten",   "Identity",  "MaxPool", "Reshape", "Slice",
                                     "Squeeze", "Transpose", "Unsqueeze", "dropout", "flatten", "max_pool2d"};
constexpr std::string_view quantised_ops[] = {"ConvInteger",   "DequantizeLinear", "DynamicQuantizeLinear",
                                              "MatMulInteger", "QLinearConv",      "QLinearMatMul",
                                              "QuantizeLinear"};

/// Of a node's operand, if it is known, in f32; undefined where it has none there.
Tensor constant(const Graph& graph, const Graph::Node& node, std::size_t place) {
  return detail::constant(graph, place < node.inputs.size() ? node.inputs[place] : -1);
}

double number(const Module& module, std::string_view name, double fallback) {
  const Attributes attributes = module.attributes();
  return AttributeReader(attributes).number(name, fallback);
}
bool flag(const Module& module, std::string_view name) {
  const Attributes attributes = module.attributes();
  return AttributeReader(attributes).boolean(name, false);
}

std::optional<Product> conv_of(const Conv2d& conv) {
  const Conv2dOptions& o = conv.options();
  const auto list = [](std::initializer_list<int> values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  const auto [height, width] = o.padding;
  return Product{.kind = Product::Kind::conv,
                 .weight = conv.weight(),
                 .bias = conv.bias(),
                 .groups = o.groups,
                 .attributes = {{"strides", list({o.stride.height, o.stride.width})},
                                {"pads", list({height, width, height, width})},
                                {"dilations", list({o.dilation.height, o.dilation.width})},
                                {"group", std::int64_t{o.groups}}}};
}

bool fits(const Tensor& bias, const Tensor& weight) {
  return bias.defined() && bias.numel() == weight.shape()[0] && bias.shape()[-1] == bias.numel();
}

/// What of the ONNX ops is a product with a constant; why not, if it is one with something else.
std::optional<Product> product_of(const Graph& graph, const Graph::Node& node, std::string& why) {
  const Module& module = *node.module;
  if (const auto* conv = dynamic_cast<const Conv2d*>(&module)) return conv_of(*conv);
  if (const auto* linear = dynamic_cast<const Linear*>(&module)) {
    const auto& shape = graph.nodes()[static_cast<std::size_t>(node.inputs[0])].shape;
    const bool rows = shape && shape->rank() == 2;
    return Product{
        .kind = rows ? Product::Kind::gemm : Product::Kind::matmul, .weight = linear->weight(), .bias = linear->bias()};
  }
  const bool conv = module.op() == "Conv", gemm = module.op() == "Gemm";
  if (!conv && !gemm && module.op() != "MatMul") return std::nullopt;
  Product result = {.kind = conv ? Product::Kind::conv : gemm ? Product::Kind::gemm : Product::Kind::matmul};
  result.weight = constant(graph, node, 1);
  why = "its weights are no constant of f32";
  if (!result.weight.defined() || result.weight.numel() == 0) return std::nullopt;
  if (!conv && result.weight.shape().rank() != 2) return std::nullopt;
  if (!conv && (!gemm || !flag(module, "transB"))) result.weight = transposed(result.weight);
  if (node.inputs.size() > 2 && node.inputs[2] >= 0) {
    result.bias = constant(graph, node, 2);
    why = "its bias is no constant of f32";
    if (!fits(result.bias, result.weight)) return std::nullopt;
    result.bias = result.bias.view({result.bias.numel()});
  }
  if (conv) {
    result.attributes = module.attributes();
    result.groups = static_cast<int>(number(module, "group", 1));
  }
  why = "it has factors or a turned operand";
  const bool plain = number(module, "alpha", 1) == 1 && number(module, "beta", 1) == 1;
  if (gemm && (!plain || flag(module, "transA"))) return std::nullopt;
  why.clear();
  return result;
}

/// y = scale x + shift of each channel; nothing if the norm's parameters are not known.
std::optional<BatchNorm2d::Coefficients> norm_of(const Graph& graph, const Graph::Node& node) {
  if (const auto* norm = dynamic_cast<const BatchNorm2d*>(node.module.get())) return norm->coefficients();
  if (node.module->op() != "BatchNormalization") return std::nullopt;
  std::array<Tensor, 4> p;
  for (std::size_t i = 0; i < 4; ++i) {
    p[i] = constant(graph, node, i + 1);
    if (!p[i].defined() || p[i].numel() != p[0].numel()) return std::nullopt;
  }
  BatchNorm2d norm({.channels = static_cast<int>(p[0].numel()), .eps = number(*node.module, "epsilon", 1e-5)});
  constexpr std::array<std::string_view, 4> names = {"weight", "bias", "running_mean", "running_var"};
  for (std::size_t i = 0; i < 4; ++i) norm.set_parameter(names[i], p[i]);
  return norm.coefficients();
}

/// What scales and shifts the channels of a product and nobody else reads is in its weights then.
void fold(Product& product, std::span<const double> scale, std::span<const double> shift) {
  Tensor weight = product.weight.clone(), bias({static_cast<std::int64_t>(product.out())});
  const std::size_t row = product.in() * product.taps();
  for (std::size_t c = 0; c < product.out(); ++c) {
    const double by = scale[scale.size() == 1 ? 0 : c], more = shift.empty() ? 0 : shift[c];
    for (float& w : weight.values<float>().subspan(c * row, row)) w = static_cast<float>(static_cast<double>(w) * by);
    const double old = product.bias.defined() ? static_cast<double>(product.bias.values<float>()[c]) : 0;
    bias.values<float>()[c] = static_cast<float>(old * by + more);
  }
  product.weight = weight;
  if (product.bias.defined() || !shift.empty()) product.bias = bias;
}

bool fold_norm(Product& product, const Graph& graph, const Graph::Node& node) {
  const auto norm = product.kind == Product::Kind::conv ? norm_of(graph, node) : std::nullopt;
  if (!norm || norm->scale.size() != product.out()) return false;
  fold(product, norm->scale, norm->shift);
  return true;
}

/// Of a Mul by, or an Add of, numbers for each channel, or one number; `behind` the channels' axis of a result of this
/// rank are so many others.
bool fold_numbers(Product& product, const Graph& graph, const Graph::Node& node, int rank, int behind) {
  const bool adds = node.module->op() == "Add";
  if (!adds && node.module->op() != "Mul") return false;
  const Tensor first = constant(graph, node, 0), numbers = first.defined() ? first : constant(graph, node, 1);
  if (!numbers.defined() || static_cast<int>(numbers.shape().rank()) > rank) return false;
  const Shape& shape = numbers.shape();
  const bool of_channels = static_cast<int>(shape.rank()) > behind && shape[-1 - behind] == numbers.numel() &&
                           static_cast<std::size_t>(numbers.numel()) == product.out();
  if (numbers.numel() != 1 && !of_channels) return false;
  std::vector<double> values(product.out());
  for (std::size_t c = 0; c < values.size(); ++c)
    values[c] = static_cast<double>(numbers.values<float>()[numbers.numel() == 1 ? 0 : c]);
  adds ? fold(product, std::vector<double>(product.out(), 1.0), values) : fold(product, values, {});
  return true;
}

/// What is done to the channels of a product and nothing else, be it behind a transpose, which nobody else reads
/// either. `item_of`: the item of a node; null: none.
template <class ItemOf>
bool fold_into_product(const Graph& graph, const Graph::Node& node, std::size_t before, const std::vector<int>& uses,
                       const ItemOf& item_of) {
  if (uses[before] != 1 || item_of(before) == nullptr) return false;
  if (std::optional<Product>& product = item_of(before)->product) {
    const bool conv = product->kind == Product::Kind::conv;
    const int rank = static_cast<int>(product->weight.shape().rank());  // of a matrix the least that its result has
    return fold_norm(*product, graph, node) || fold_numbers(*product, graph, node, rank, conv ? rank - 2 : 0);
  }
  const Graph::Node& move = graph.nodes()[before];
  if (move.module == nullptr || move.module->op() != "Transpose" || move.inputs[0] < 0) return false;
  const auto source = static_cast<std::size_t>(move.inputs[0]);
  if (uses[source] != 1 || item_of(source) == nullptr || !item_of(source)->product) return false;
  Product& product = *item_of(source)->product;
  const Attributes attributes = move.module->attributes();
  const std::vector<std::int64_t> order = AttributeReader(attributes).integers("perm", {});
  const auto rank = static_cast<std::int64_t>(order.size());
  const auto axis = std::ranges::find(order, product.kind == Product::Kind::conv ? 1 : rank - 1);
  return axis != order.end() &&
         fold_numbers(product, graph, node, static_cast<int>(rank), static_cast<int>(order.end() - axis) - 1);
}

Role role_of(const Graph& graph, const Graph::Node& node) {
  const auto is_one_of = [&](const auto& names) {
    return std::ranges::find(names, node.module->op()) != std::end(names);
  };
  if (is_one_of(ends)) return Role::end;
  if (is_one_of(same)) return Role::same;
  if (!is_one_of(carriers)) return Role::other;
  // What is added as a constant is a bias.
  const bool fixed = std::ranges::any_of(node.inputs, [&](int input) {
    const int at = behind_identities(graph, input);
    const Module* const module = at < 0 ? nullptr : graph.nodes()[static_cast<std::size_t>(at)].module.get();
    return at < 0 || (module != nullptr && module->op() == "Constant");
  });
  return fixed && node.module->op() != "Mul" ? Role::end : Role::carrier;
}

}  // namespace

Draft::Draft(const Graph& graph) {
  std::vector<int> uses(graph.nodes().size(), 0), place(graph.nodes().size(), -1);
  for (const Graph::Node& node : graph.nodes()) {
    for (const int input : node.inputs) {
      if (input >= 0) ++uses[static_cast<std::size_t>(input)];
    }
  }
  for (const int output : graph.outputs()) uses[static_cast<std::size_t>(output)] += 2;  // nobody's alone
  const StepsOfGelu gelus(graph, uses);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const int argument = gelus.of(i);
    if (argument == StepsOfGelu::none) {
      add(graph, i, place, uses);
    } else if (argument != StepsOfGelu::inside) {
      const Graph::Node& node = graph.nodes()[i];
      place[i] = static_cast<int>(items.size());
      items.push_back({.name = node.name,
                       .module = std::make_shared<Op>("Gelu"),
                       .inputs = {place[static_cast<std::size_t>(argument)]},
                       .role = Role::carrier,
                       .shape = node.shape,
                       .dtype = node.dtype});
    }
  }
  for (const int output : graph.outputs()) outputs.push_back(place[static_cast<std::size_t>(output)]);
}

void Draft::add(const Graph& graph, std::size_t i, std::vector<int>& place, const std::vector<int>& uses) {
  const Graph::Node& node = graph.nodes()[i];
  Item item = {.name = node.name, .module = node.module, .shape = node.shape, .dtype = node.dtype};
  if (node.module != nullptr) {
    if (std::ranges::find(quantised_ops, node.module->op()) != std::end(quantised_ops))
      fail("the model is quantised already: ", node.name, " is a ", node.module->op());
    for (const int input : node.inputs) {
      if (input < 0) continue;
      const auto before = static_cast<std::size_t>(input);
      const auto item_of = [&](std::size_t of) { return place[of] < 0 ? nullptr : &at(place[of]); };
      if (!fold_into_product(graph, node, before, uses, item_of)) continue;
      if (uses[i] > 1) item_of(before)->name = node.name;  // by which others may ask for it
      place[i] = place[before];
      return;
    }
    item.product = product_of(graph, node, item.why);
    item.role = role_of(graph, node);
  }
  for (const int input : node.inputs) {
    const int at = behind_identities(graph, input);
    item.inputs.push_back(at < 0 ? -1 : place[static_cast<std::size_t>(at)]);
  }
  if (item.product) item.inputs.resize(1);
  place[i] = static_cast<int>(items.size());
  items.push_back(std::move(item));
}

std::vector<int> Draft::operands(const Item& item) const {
  std::vector<int> result;
  std::ranges::copy_if(item.inputs, std::back_inserter(result), [&](int i) { return i >= 0 && !at(i).is_constant(); });
  if (item.role != Role::carrier) result.resize(std::min<std::size_t>(result.size(), 1));
  return result;
}

int Draft::origin(int item) const {
  while (at(item).role == Role::same && !at(item).inputs.empty()) item = at(item).inputs[0];
  return item;
}

std::vector<std::vector<int>> Draft::readers() const {
  std::vector<std::vector<int>> result(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const int input : items[i].inputs) {
      if (input >= 0) result[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
    }
  }
  return result;
}

}  // namespace lamina::detail
