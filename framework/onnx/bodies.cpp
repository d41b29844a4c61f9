#include <algorithm>

#include "lamina/base/names.h"
#include "lamina/onnx/flattener.h"

namespace lamina::detail::onnx {
namespace {

constexpr int deepest = 64;  // of calls within calls
// Nodes, names and numbers of all bodies together, as often as called. A file that says all of them itself has less
// than one for each three bytes.
constexpr std::uint64_t of_any_file = 65'536, of_each_byte = 8, largest = 4'000'000;

}  // namespace

/// Bodies may be called again and again, from bodies: a short file may stand for any number of nodes.
void Flattener::pay(std::uint64_t amount, const Scope& scope) {
  if (scope.depth == 0) return;
  paid_ += amount;
  const std::uint64_t size = model_.file->bytes().size();
  const std::uint64_t bound =
      size < largest / of_each_byte ? std::min(of_any_file + of_each_byte * size, largest) : largest;
  if (paid_ > bound) {
    refuse(scope, "the bodies of the model's functions grow to more than ", bound,
           " nodes, names and numbers, the most for a file of ", size, " bytes");
  }
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
    append(
        {.op = "Identity", .version = newest_opset, .name = node.name, .inputs = {made}, .outputs = {node.outputs[i]}});
  }
}

void Flattener::call(const FunctionProto& function, const FlatNode& node, const std::string& prefix,
                     const Scope& scope) {
  Scope body = {.prefix = prefix,
                .versions = versions_of(function.opsets, model_.file->path()),
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

/// The graph that an attribute holds; null if none does.
const GraphProto* graph_in(const FlatNode& node, std::string_view attribute) {
  for (const Argument& argument : node.arguments) {
    const auto* found = std::get_if<std::shared_ptr<const GraphProto>>(&argument.attribute->value);
    if (found != nullptr && argument.name == attribute) return found->get();
  }
  return nullptr;
}

/// Puts an If's branches in its place: the one that is always taken, or, if that is not known before shapes and the
/// values of inputs are, both, and for each output an If of Lamina's own that chooses. False if there are none.
bool Flattener::branch(const FlatNode& node, const Scope& scope) {
  if (node.inputs.size() != 1 || node.inputs[0] < 0 || node.outputs.empty() || node.outputs[0] < 0) return false;
  const GraphProto* const branches[2] = {graph_in(node, "then_branch"), graph_in(node, "else_branch")};
  if (branches[0] == nullptr || branches[1] == nullptr) return false;
  const TensorProto* const stored = value(node.inputs[0]).stored;
  if (stored != nullptr) {
    if (stored->data_type != data_type_bool) return false;
    const Tensor flag = tensors_.read(*stored);
    if (flag.numel() != 1) return false;
    value(node.inputs[0]).input = nullptr;  // what the graph is depends on it
    add_branch(*branches[flag.values<bool>()[0] ? 0 : 1], node, scope, "");
    return true;
  }
  const std::vector<int> taken = add_branch(*branches[0], node, scope, "/then_branch"),
                         other = add_branch(*branches[1], node, scope, "/else_branch");
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] < 0) continue;
    append({.op = "If",
            .version = newest_opset,
            .name = node.name,
            .inputs = {node.inputs[0], taken[i], other[i]},
            .outputs = {node.outputs[i]}});
  }
  return true;
}

/// How many operands a Scan takes apart; 0: it has axes or directions that are not the usual ones, or is older.
std::size_t slices_of(const FlatNode& scan) {
  std::int64_t slices = 0;
  for (const Argument& argument : scan.arguments) {
    const auto* number = std::get_if<std::int64_t>(&argument.attribute->value);
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(&argument.attribute->value);
    if (argument.name == "num_scan_inputs" && number != nullptr) slices = *number;
    if (numbers != nullptr && std::ranges::any_of(*numbers, [](std::int64_t n) { return n != 0; })) return 0;
  }
  const bool known = scan.version >= 9 && slices > 0 && slices <= std::ssize(scan.inputs);
  return known ? static_cast<std::size_t>(slices) : 0;
}

/// Puts a Loop's body beside it once, and in its place a Loop of Lamina's own (graph/loops.h). A Scan is one over the
/// slices of its last operands. False if there is no body.
bool Flattener::loop(const FlatNode& node, const Scope& scope) {
  const GraphProto* const graph = graph_in(node, "body");
  const bool scan = node.op == "Scan";
  const std::size_t slices = scan ? slices_of(node) : 0, more = scan ? 0 : 1, values = node.inputs.size();
  if (graph == nullptr || (scan ? slices == 0 : values < 2)) return false;
  Scope body = body_of(*graph, node, scope, "/body");
  // A Loop's has the number and whether to go on before what is carried on, and whether to go on before its outputs.
  if (graph->inputs.size() != values || graph->outputs.size() < values - slices - more ||
      graph->outputs.size() < node.outputs.size() + more) {
    refuse(body, "expected ", values, " inputs and ", std::max(values - slices - more, node.outputs.size() + more),
           " or more outputs of the body, got ", graph->inputs.size(), " and ", graph->outputs.size());
  }
  const auto fresh = [&](Tensor tensor = {}) {
    graph_.values.push_back({.name = unique_name("value", body), .tensor = std::move(tensor)});
    return static_cast<int>(graph_.values.size()) - 1;
  };
  const auto add = [&](std::string_view op, std::vector<int> inputs, int output) {
    append({.op = op, .version = newest_opset, .name = node.name, .inputs = std::move(inputs), .outputs = {output}});
    return output;
  };
  FlatNode own = {.op = "Loop", .version = newest_opset, .name = node.name, .outputs = node.outputs};
  while (scan && own.inputs.size() < 2) own.inputs.push_back(add("LoopValue", {}, fresh()));
  for (std::size_t i = 0; i < values; ++i) {
    const int value = define(graph->inputs[i].name, body);
    if (i + slices < values) own.inputs.push_back(add("LoopValue", {}, value));
    if (i + slices >= values) add("Gather", {node.inputs[i], own.inputs[0]}, value);
  }
  const int go = own.inputs[1];
  own.inputs.push_back(-1);
  if (scan) {
    const int shape = add("Shape", {node.inputs.back()}, fresh()),
              zero = fresh(Tensor::from(std::vector<std::int64_t>{0}, {}));
    own.inputs.insert(own.inputs.end(), {add("Gather", {shape, zero}, fresh()), -1});
  }
  own.inputs.insert(own.inputs.end(), node.inputs.begin(), node.inputs.end() - static_cast<std::ptrdiff_t>(slices));
  add_constants(*graph, body);
  add_body(graph->nodes, body);
  if (scan) own.inputs.push_back(go);
  for (const ValueInfoProto& output : graph->outputs) {
    own.inputs.push_back(find(output.name, body));
    if (own.inputs.back() < 0) refuse(body, "output ", quote(output.name), " is made by no node");
  }
  append(std::move(own));
  return true;
}

Scope Flattener::body_of(const GraphProto& graph, const FlatNode& node, const Scope& scope, std::string_view suffix) {
  const auto named = std::ranges::find_if(node.outputs, [](int output) { return output >= 0; });
  Scope body = {.outer = &scope,
                .prefix = concat(value(*named).name, suffix),
                .versions = scope.versions,
                .arguments = scope.arguments,
                .function = scope.function,
                .depth = scope.depth + 1,
                .where = concat(scope.where, ", ", node.name)};
  pay(body.versions.size() + graph.initializers.size() + graph.outputs.size(), body);
  if (body.depth > deepest) refuse(scope, node.name, ": more than ", deepest, " deep");
  return body;
}

/// A branch, whose outputs are the node's if it is the only one (`suffix` is empty); returned if not.
std::vector<int> Flattener::add_branch(const GraphProto& graph, const FlatNode& node, const Scope& scope,
                                       std::string_view suffix) {
  Scope body = body_of(graph, node, scope, suffix);
  std::vector<std::string> names;
  for (const ValueInfoProto& output : graph.outputs) names.push_back(output.name);
  if (names.size() < node.outputs.size()) {
    refuse(body, "expected ", node.outputs.size(), " outputs of each branch, got ", names.size());
  }
  if (suffix.empty()) expect_outputs(names, node, body);
  add_constants(graph, body);
  add_body(graph.nodes, body);
  std::vector<int> made;
  if (suffix.empty()) {
    connect_outputs(names, node, body);
  } else {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      made.push_back(find(names[i], body));
      if (made.back() < 0) refuse(body, "output ", quote(names[i]), " is made by no node");
    }
  }
  return made;
}

}  // namespace lamina::detail::onnx
