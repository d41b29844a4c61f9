#include <utility>

#include "lamina/base/names.h"
#include "lamina/onnx/flattener.h"

namespace lamina::detail::onnx {
namespace {

constexpr int deepest = 64;                   // of calls within calls
constexpr std::uint64_t largest = 4'000'000;  // nodes, names and numbers of all bodies together, as often as called

}  // namespace

/// Bodies may be called again and again, from bodies: a short file may stand for any number of nodes.
void Flattener::pay(std::uint64_t amount, const Scope& scope) {
  if (scope.depth == 0) return;
  paid_ += amount;
  if (paid_ > largest) refuse(scope, "the bodies of the model's functions grow to more than ", largest, " nodes");
}

/// The names of a body's outputs stand for the values that the call makes.
void Flattener::expect_outputs(const std::vector<std::string>& names, const FlatNode& node, Scope& body) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] >= 0) body.names.try_emplace(names[i], Scope::Entry{node.outputs[i], false});
  }
}

void Flattener::connect_outputs(const std::vector<std::string>& names, const FlatNode& node, const Scope& body) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] < 0) continue;
    const int made = find(names[i], body);
    if (made < 0) refuse(body, "output ", quote(names[i]), " is made by no node");
    if (made == node.outputs[i]) continue;
    // An output that is an input too, or that is listed twice.
    append({.op = "Identity",
            .domain = "",
            .version = newest_opset,
            .name = node.name,
            .inputs = {made},
            .outputs = {node.outputs[i]},
            .arguments = {}});
  }
}

void Flattener::call(const FunctionProto& function, const FlatNode& node, const std::string& prefix,
                     const Scope& scope) {
  Scope body = {.outer = nullptr,
                .prefix = prefix,
                .names = {},
                .versions = versions_of(function.opsets),
                .arguments = &node.arguments,
                .function = &function,
                .depth = scope.depth + 1,
                .where = concat("function ", quote(function.name))};
  body.versions.insert(scope.versions.begin(), scope.versions.end());
  pay(body.versions.size() + function.inputs.size(), body);
  if (body.depth > deepest) refuse(scope, node.name, ": functions call each other more than ", deepest, " deep");
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size()) {
    refuse(scope, node.name, ": expected at most ", function.inputs.size(), " inputs and ", function.outputs.size(),
           " outputs, got ", node.inputs.size(), " and ", node.outputs.size());
  }
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const int input = i < node.inputs.size() ? node.inputs[i] : -1;
    if (!body.names.try_emplace(function.inputs[i], Scope::Entry{input, true}).second) {
      refuse(body, "two inputs are named ", quote(function.inputs[i]));
    }
  }
  expect_outputs(function.outputs, node, body);
  add_body(function.nodes, body);
  connect_outputs(function.outputs, node, body);
}

/// Puts the branch that is always taken in the place of an If; false if that is not known.
bool Flattener::branch(const FlatNode& node, const Scope& scope) {
  if (node.inputs.size() != 1 || node.inputs[0] < 0 || node.outputs.empty() || node.outputs[0] < 0) return false;
  const FlatValue& condition = value(node.inputs[0]);
  if (condition.stored == nullptr || condition.stored->data_type != data_type_bool) return false;
  const Tensor flag = tensors_.read(*condition.stored);
  if (flag.numel() != 1) return false;
  const std::string_view wanted = flag.values<bool>()[0] ? "then_branch" : "else_branch";
  const GraphProto* graph = nullptr;
  for (const auto& [name, attribute] : node.arguments) {
    const auto* found = std::get_if<std::shared_ptr<const GraphProto>>(&attribute->value);
    if (name == wanted && found != nullptr) graph = found->get();
  }
  if (graph == nullptr) return false;
  Scope body = {.outer = &scope,
                .prefix = value(node.outputs[0]).name,
                .names = {},
                .versions = scope.versions,
                .arguments = scope.arguments,
                .function = scope.function,
                .depth = scope.depth + 1,
                .where = concat(scope.where, ", ", node.name)};
  pay(body.versions.size() + graph->initializers.size() + graph->outputs.size(), body);
  if (body.depth > deepest) refuse(scope, node.name, ": more than ", deepest, " deep");
  std::vector<std::string> names;
  for (const ValueInfoProto& output : graph->outputs) names.push_back(output.name);
  if (names.size() < node.outputs.size()) {
    refuse(body, "expected ", node.outputs.size(), " outputs of ", wanted, ", got ", names.size());
  }
  expect_outputs(names, node, body);
  add_constants(*graph, body);
  add_body(graph->nodes, body);
  connect_outputs(names, node, body);
  return true;
}

}  // namespace lamina::detail::onnx
