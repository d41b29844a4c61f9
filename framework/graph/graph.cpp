#include "lamina/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/files/prefixes.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/op.h"

namespace lamina {
namespace {

/// Whether the weights have most parameters of the nodes under their names with `prefix` in front; the last layer, say,
/// may be another.
bool has_most_under(const std::string& prefix, const std::vector<Graph::Node>& nodes, const Weights& weights) {
  std::size_t all = 0, there = 0;
  for (const Graph::Node& node : nodes) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      ++all;
      there += weights.contains(prefix + detail::parameter_key(node.name, parameter.name));
    }
  }
  return there * 2 > all;
}

/// Prefixes under which the weights would fit: "backbone.". Looks for a few at most.
std::vector<std::string> fitting_prefixes(const std::vector<Graph::Node>& nodes, const Weights& weights,
                                          std::span<const std::string> names) {
  constexpr int most = 8;
  int tried = 0;
  std::vector<std::string> prefixes;
  for (const Graph::Node& node : nodes) {
    if (node.module == nullptr || node.module->parameters().empty()) continue;
    const std::string first = '.' + detail::parameter_key(node.name, node.module->parameters()[0].name);
    for (const std::string& name : names) {
      if (!name.ends_with(first) || ++tried > most) continue;
      const std::string prefix = name.substr(0, name.size() - first.size() + 1);
      if (has_most_under(prefix, nodes, weights)) prefixes.push_back(prefix);
    }
    break;
  }
  return prefixes;
}

/// The weights' names are others than the graph's, but for what is in front of them: says so, rather than name by name.
void require_no_prefix(const std::vector<Graph::Node>& nodes, const Weights& weights,
                       std::span<const std::string> names) {
  const std::vector<std::string> prefixes = fitting_prefixes(nodes, weights, names);
  if (prefixes.empty()) return;
  const auto begins_so = [&](const std::string& name) { return name.starts_with(prefixes[0]); };
  std::string which;
  for (const std::string& prefix : prefixes) which += (which.empty() ? "" : ", ") + detail::quote(prefix);
  detail::fail("the weights do not fit the graph: ",
               std::ranges::all_of(names, begins_so) ? "all their names begin with " : "what fits begins with ", which,
               " and none of the graph's does; OpenOptions::strip_prefix leaves it out");
}

}  // namespace

Graph::Graph() {
  static std::atomic<std::uint64_t> graphs = 0;
  id_ = ++graphs;
}

const Graph::Node* Graph::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &nodes_[static_cast<std::size_t>(found->second)];
}

bool Graph::Node::is_optional() const {
  const auto* constant = dynamic_cast<const Constant*>(module.get());
  return constant != nullptr && constant->input();
}

std::vector<int> Graph::optional_inputs() const {
  std::vector<int> result;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].is_optional()) result.push_back(static_cast<int>(i));
  }
  return result;
}

int Graph::check(Value value) const {
  if (value.node < 0 || value.node >= static_cast<int>(nodes_.size()) || (value.graph != 0 && value.graph != id_))
    detail::fail("graph: a value of another graph was used, which is number ", value.node, " of that graph's nodes");
  return value.node;
}

Value Graph::append(Node node) {
  if (node.name.empty()) detail::fail("graph: a node needs a name");
  if (!index_.emplace(node.name, static_cast<int>(nodes_.size())).second)
    detail::fail(node.name, ": there is a node of this name already");
  nodes_.push_back(std::move(node));
  ++changes_;
  return {static_cast<int>(nodes_.size()) - 1, id_};
}

Value Graph::input(std::string name, Shape shape, DType dtype) {
  const Value value =
      append({.name = std::move(name), .module = nullptr, .inputs = {}, .shape = shape, .dtype = dtype});
  inputs_.push_back(value.node);
  return value;
}

Value Graph::add(std::string name, std::shared_ptr<Module> module, std::span<const Value> inputs) {
  Node node = {.name = std::move(name), .module = std::move(module), .inputs = {}, .shape = {}};
  if (node.module == nullptr) detail::fail(node.name, ": expected a module, got null");
  bool known = dynamic_cast<const Op*>(node.module.get()) == nullptr;
  std::vector<Shape> shapes;
  for (const Value value : inputs) {
    node.inputs.push_back(value.node == Value().node ? -1 : check(value));
    if (node.inputs.back() < 0) {
      if (known) detail::fail(node.name, ": ", node.module->op(), " has no optional operands");
      continue;
    }
    const std::optional<Shape>& shape = nodes_[static_cast<std::size_t>(value.node)].shape;
    known &= shape && std::ranges::none_of(*shape, [](std::int64_t extent) { return extent < batch; });
    if (known) shapes.push_back(*shape);
  }
  if (known) node.shape = detail::at_node(node.name, [&] { return node.module->output_shape(shapes); });
  if (node.is_optional()) {
    const auto& constant = static_cast<const Constant&>(*node.module);
    node.shape = constant.input(), node.dtype = constant.parameters()[0].dtype;
  }
  return append(std::move(node));
}

void Graph::output(Value value) {
  const int node = check(value);
  if (std::find(outputs_.begin(), outputs_.end(), node) != outputs_.end())
    detail::fail(nodes_[static_cast<std::size_t>(node)].name, ": is an output already");
  outputs_.push_back(node);
  ++changes_;
}

Graph Graph::until(std::string_view name) const {
  const Node* last = find(name);
  if (last == nullptr)
    detail::fail("graph: there is no node \"", name, '"', detail::nearest_text(name, detail::node_names(*this)));
  const auto end = static_cast<std::size_t>(last - nodes_.data());
  std::vector<bool> needed(nodes_.size(), false);
  needed[end] = true;
  for (std::size_t i = end + 1; i-- > 0;) {
    if (!needed[i]) continue;
    for (const int input : nodes_[i].inputs) {
      if (input >= 0) needed[static_cast<std::size_t>(input)] = true;
    }
  }
  Graph part;
  std::vector<Value> values(nodes_.size());
  for (std::size_t i = 0; i <= end; ++i) {
    const Node& node = nodes_[i];
    // Every input stays one, so that the part is called as the whole is.
    if (node.module == nullptr) values[i] = part.input(node.name, *node.shape, node.dtype);
    if (node.module == nullptr || !needed[i]) continue;
    std::vector<Value> inputs;
    for (const int input : node.inputs) inputs.push_back(input < 0 ? Value() : values[static_cast<std::size_t>(input)]);
    values[i] = part.add(node.name, node.module, inputs);
  }
  part.output(values[end]);
  return part;
}

std::string detail::foreign_prefix(const Graph& graph, const Weights& weights) {
  std::string stripped;
  for (std::vector<std::string> names = weights.names();;) {
    const std::string_view prefix = shared_prefix(known_prefixes, names);
    const auto begins_so = [&](const Graph::Node& node) {
      return node.module != nullptr && !node.module->parameters().empty() && (node.name + '.').starts_with(prefix);
    };
    if (prefix.empty() || std::ranges::any_of(graph.nodes(), begins_so)) return stripped;
    stripped += prefix;
    for (std::string& name : names) name.erase(0, prefix.size());
  }
}

std::vector<std::string> Graph::load(const Weights& weights) {
  const std::vector<std::string> names = weights.names();
  if (const std::string prefix = detail::foreign_prefix(*this, weights); !prefix.empty())
    return load(weights.without_prefix(prefix));
  struct Assignment {
    Module* module;
    std::string_view parameter;
    Tensor value;
  };
  std::vector<Assignment> assignments;
  std::set<std::string, std::less<>> used;
  std::string problems;
  constexpr int max_suggestions = 20;
  int suggestions = 0;
  bool alike = false;  // whether any name is, or is nearly, one of the file's
  for (const Node& node : nodes_) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      const std::string name = detail::parameter_key(node.name, parameter.name);
      used.insert(name);
      const TensorInfo* info = weights.info(name);
      if (info == nullptr) {
        const std::string nearest = suggestions++ < max_suggestions ? detail::alike_text(name, names) : "";
        alike = alike || !nearest.empty();
        problems += detail::concat("\n  missing: ", name, ' ', parameter.shape, nearest);
      } else if (!std::ranges::equal(info->shape, parameter.shape.extents())) {
        problems += detail::concat("\n  wrong shape: ", name, ": expected ", parameter.shape, ", got ",
                                   detail::shape_text(info->shape));
      }
      alike = alike || info != nullptr;
      if (info == nullptr || !problems.empty()) continue;
      assignments.push_back({node.module.get(), parameter.name, weights.at(name).to(parameter.dtype)});
    }
  }
  if (!problems.empty()) {
    require_no_prefix(nodes_, weights, names);
    if (!alike) {
      detail::fail("the weights do not fit the graph: none of its ", used.size(), " parameters is among the ",
                   names.size(), " of the file", detail::nearest_text(*used.begin(), names));
    }
    detail::fail("the weights do not fit the graph:", problems);
  }
  ++changes_;
  for (Assignment& a : assignments) a.module->set_parameter(a.parameter, std::move(a.value));

  std::vector<std::string> unused;
  for (const std::string& name : names) {
    if (!used.contains(name) && !name.ends_with("num_batches_tracked")) unused.push_back(name);
  }
  return unused;
}

std::vector<std::string> Graph::names_of(std::span<const int> nodes) const {
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(nodes_[static_cast<std::size_t>(node)].name);
  return names;
}

Weights Graph::state_dict() const {
  Weights weights;
  for (const Node& node : nodes_) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      const std::string name = detail::parameter_key(node.name, parameter.name);
      if (!parameter.value.defined()) detail::fail(name, ": was never set; load weights first");
      weights.set(name, parameter.value);
    }
  }
  return weights;
}

}  // namespace lamina
