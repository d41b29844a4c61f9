#include "lamina/onnx/flatten.h"

#include <algorithm>
#include <utility>

#include "lamina/base/names.h"
#include "lamina/graph/order.h"
#include "lamina/onnx/flattener.h"

namespace lamina::detail::onnx {
namespace {

constexpr std::size_t longest_name = 200;  // of a value within a body: with the calls' names in front

/// What messages call a node.
std::string title(const NodeProto& node) {
  const std::string& name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
  return concat(std::string_view(node.op_type).substr(0, longest_name), ' ', quote(name));
}

/// The nodes that the outputs need, each after those whose outputs it needs, otherwise as they stand.
std::vector<int> needed_nodes(const FlatGraph& graph, const std::string& path) {
  std::vector<bool> needed(graph.nodes.size(), false);
  std::vector<std::vector<int>> inputs(graph.nodes.size());
  std::vector<int> left;
  const auto need = [&](int value) {
    const int maker = value < 0 ? -1 : graph.values[static_cast<std::size_t>(value)].node;
    if (maker >= 0 && !needed[static_cast<std::size_t>(maker)]) {
      needed[static_cast<std::size_t>(maker)] = true;
      left.push_back(maker);
    }
    return maker;
  };
  for (const int output : graph.outputs) need(output);
  while (!left.empty()) {
    const auto node = static_cast<std::size_t>(left.back());
    left.pop_back();
    for (const int input : graph.nodes[node].inputs) {
      if (const int maker = need(input); maker >= 0) inputs[node].push_back(maker);
    }
  }
  std::vector<int> order = in_order(inputs);
  std::erase_if(order, [&](int node) { return !needed[static_cast<std::size_t>(node)]; });
  for (const int node : order) needed[static_cast<std::size_t>(node)] = false;
  if (const auto lost = std::ranges::find(needed, true); lost != needed.end()) {
    const FlatNode& node = graph.nodes[static_cast<std::size_t>(lost - needed.begin())];
    fail(path, ": graph: ", node.name, " is part of a cycle or depends on one");
  }
  return order;
}

std::uint64_t cost_of(const NodeProto& node) {
  std::uint64_t cost = 1 + node.inputs.size() + node.outputs.size() + node.attributes.size();
  for (const AttributeProto& attribute : node.attributes) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute.value)) cost += list->size();
    if (const auto* list = std::get_if<std::vector<float>>(&attribute.value)) cost += list->size();
    if (const auto* list = std::get_if<std::vector<std::string>>(&attribute.value)) cost += list->size();
    if (const auto* text = std::get_if<std::string>(&attribute.value)) cost += text->size() / sizeof(std::int64_t);
  }
  return cost;
}

}  // namespace

std::map<std::string_view, std::int64_t> versions_of(const std::vector<OperatorSetIdProto>& opsets,
                                                     const std::string& path) {
  std::map<std::string_view, std::int64_t> versions;
  for (const OperatorSetIdProto& opset : opsets) {
    const auto [known, is_new] = versions.emplace(own(opset.domain), opset.version);
    if (is_new || known->second == opset.version) continue;
    fail(path, ": operator set ", quote(opset.domain.empty() ? "ai.onnx" : opset.domain), " is imported as version ",
         known->second, " and as version ", opset.version);
  }
  return versions;
}

std::string Flattener::unique_name(std::string_view name, const Scope& scope) {
  std::string wanted = scope.prefix.empty() ? std::string(name) : concat(scope.prefix, '/', name);
  if (scope.depth > 0 && wanted.size() > longest_name) wanted = concat("value_", graph_.values.size());
  std::string result = wanted;
  for (int i = 2; !taken_.insert(result).second; ++i) result = concat(wanted, '_', i);
  return result;
}

/// A value that the scope's graph makes.
int Flattener::define(std::string_view name, Scope& scope) {
  const auto [place, is_new] = scope.names.try_emplace(name, Scope::Entry{-1, false});
  Scope::Entry& entry = place->second;
  if (entry.defined) refuse(scope, "two values are named ", quote(name));
  entry.defined = true;
  if (is_new) {
    entry.value = static_cast<int>(graph_.values.size());
    graph_.values.push_back({.name = unique_name(name, scope)});
  }
  return entry.value;
}

int Flattener::find(std::string_view name, const Scope& scope) const {
  for (const Scope* s = &scope; s != nullptr; s = s->outer) {
    const auto found = s->names.find(name);
    if (found != s->names.end() && found->second.defined) return found->second.value;
  }
  return -2;
}

std::int64_t Flattener::version_of(std::string_view domain, const Scope& scope) const {
  const auto found = scope.versions.find(domain);
  return found == scope.versions.end() ? 0 : found->second;
}

std::vector<Argument> Flattener::arguments_of(const NodeProto& node, const Scope& scope) {
  std::vector<Argument> result;
  std::set<std::string_view> seen;
  for (const AttributeProto& attribute : node.attributes) {
    if (!seen.insert(attribute.name).second) {
      refuse(scope, title(node), ": there are two attributes ", quote(attribute.name));
    }
    const std::string_view from = attribute.ref_attr_name;
    if (from.empty()) {
      result.push_back({attribute.name, &attribute});
      continue;
    }
    const AttributeProto* found = nullptr;
    if (scope.function != nullptr) {
      pay(scope.function->defaults.size() + scope.arguments->size(), scope);
      for (const AttributeProto& fallback : scope.function->defaults) {
        if (fallback.name == from) found = &fallback;
      }
      for (const Argument& argument : *scope.arguments) {
        if (argument.name == from) found = argument.attribute;
      }
    }
    if (found != nullptr) result.push_back({attribute.name, found});  // else it is as if left out
  }
  return result;
}

void Flattener::append(FlatNode node) {
  for (const int output : node.outputs) {
    if (output >= 0) value(output).node = static_cast<int>(graph_.nodes.size());
  }
  graph_.nodes.push_back(std::move(node));
}

/// An op Constant becomes the constant that it makes.
void Flattener::add_constant(const FlatNode& node) {
  if (node.arguments.size() != 1 || node.outputs.size() != 1 || node.outputs[0] < 0) return append(node);
  const auto& [name, attribute] = node.arguments[0];
  FlatValue& constant = value(node.outputs[0]);
  if (const auto* tensor = std::get_if<std::shared_ptr<const TensorProto>>(&attribute->value)) {
    constant.stored = tensor->get();
  } else if (const auto* number = std::get_if<float>(&attribute->value)) {
    constant.tensor = Tensor::from(std::vector<float>{*number}, Shape{});
  } else if (const auto* whole = std::get_if<std::int64_t>(&attribute->value)) {
    constant.tensor = Tensor::from(std::vector<std::int64_t>{*whole}, Shape{});
  } else if (const auto* list = std::get_if<std::vector<float>>(&attribute->value)) {
    constant.tensor = Tensor::from(*list, Shape{static_cast<std::int64_t>(list->size())});
  } else if (const auto* wholes = std::get_if<std::vector<std::int64_t>>(&attribute->value)) {
    constant.tensor = Tensor::from(*wholes, Shape{static_cast<std::int64_t>(wholes->size())});
  } else {
    append(node);  // texts, sparse tensors: refused with all else that is
  }
}

void Flattener::add_node(const NodeProto& node, Scope& scope) {
  FlatNode flat = {.op = node.op_type,
                   .domain = own(node.domain),
                   .version = version_of(own(node.domain), scope),
                   .name = title(node),
                   .arguments = arguments_of(node, scope)};
  pay(cost_of(node), scope);
  for (const std::string& name : node.inputs) {
    const int input = name.empty() ? -1 : find(name, scope);
    if (input == -2) refuse(scope, title(node), ": input ", quote(name), " is made by no node");
    flat.inputs.push_back(input);
  }
  int first = -1;  // that somebody may want
  for (const std::string& name : node.outputs) {
    flat.outputs.push_back(name.empty() ? -1 : find(name, scope));
    if (first < 0) first = flat.outputs.back();
  }
  if (first < 0) return;
  const auto function = functions_.find(Key{flat.domain, flat.op, node.overload});
  if (function != functions_.end()) return call(*function->second, flat, value(first).name, scope);
  if (!flat.domain.empty()) return append(std::move(flat));
  if (flat.op == "If" && branch(flat, scope)) return;
  if ((flat.op == "Loop" || flat.op == "Scan") && loop(flat, scope)) return;
  if (flat.op == "Constant") return add_constant(flat);
  append(std::move(flat));
}

void Flattener::add_body(const std::vector<NodeProto>& nodes, Scope& scope) {
  for (const NodeProto& node : nodes) {
    for (const std::string& output : node.outputs) {
      if (!output.empty()) define(output, scope);
    }
  }
  for (const NodeProto& node : nodes) add_node(node, scope);
}

void Flattener::add_constants(const GraphProto& graph, Scope& scope) {
  if (graph.sparse_initializers > 0) refuse(scope, "sparse initializers are not supported");
  for (const TensorProto& tensor : graph.initializers) {
    if (tensor.name.empty()) refuse(scope, "an initializer has no name");
    value(define(tensor.name, scope)).stored = &tensor;
  }
}

FlatGraph Flattener::run() {
  Scope scope = {.versions = versions_of(model_.opsets, model_.file->path()), .where = "graph"};
  for (const FunctionProto& function : model_.functions) {
    if (!functions_.emplace(Key{own(function.domain), function.name, function.overload}, &function).second) {
      refuse(scope, "two functions are named ", quote(function.name));
    }
  }
  add_constants(model_.graph, scope);
  for (const ValueInfoProto& input : model_.graph.inputs) {
    if (input.name.empty()) refuse(scope, "an input has no name");
    if (const int known = find(input.name, scope); known >= 0 && value(known).is_constant()) {
      value(known).input = &input;
      continue;
    }
    graph_.inputs.push_back(define(input.name, scope));
  }
  add_body(model_.graph.nodes, scope);
  std::set<int> seen;
  for (const ValueInfoProto& output : model_.graph.outputs) {
    const int id = find(output.name, scope);
    if (id < 0) refuse(scope, "output ", quote(output.name), " is made by no node");
    if (!seen.insert(id).second) refuse(scope, quote(output.name), " is listed twice among the outputs");
    graph_.outputs.push_back(id);
  }
  if (graph_.outputs.empty()) refuse(scope, "there are no outputs");
  graph_.order = needed_nodes(graph_, model_.file->path());
  return std::move(graph_);
}

FlatGraph flatten(const ModelProto& model, Tensors& tensors) { return Flattener(model, tensors).run(); }

}  // namespace lamina::detail::onnx
