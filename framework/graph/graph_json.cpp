#include "lamina/graph/graph_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/graph/order.h"
#include "lamina/graph/resolve.h"
#include "lamina/layers/op_table.h"
#include "lamina/ops/op.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

using Json = nlohmann::ordered_json;

// Far beyond any network; a parsed text takes up to twenty times its bytes.
constexpr std::size_t longest_text = std::size_t{16} << 20;
constexpr std::size_t max_nodes = 100'000;

const Json& member(const Json& object, const char* key, Json::value_t type, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(where, ": \"", key, "\" is missing");
  // The parser makes unsigned and signed numbers of different types; nothing here asks for either.
  if (found->type() != type) fail(where, ": \"", key, "\" has the wrong type: ", shortened(found->dump()));
  return *found;
}

/// Unknown keys are refused: a typo must not change what a network computes.
void require_keys(const Json& object, std::initializer_list<std::string_view> known, std::string_view where) {
  if (!object.is_object()) fail(where, ": expected an object, got ", shortened(object.dump()));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::vector<std::string> names(known.begin(), known.end());
      fail(where, ": unknown key ", quote(key), nearest_text(key, names));
    }
  }
}

std::string text(const Json& object, const char* key, std::string_view where) {
  return member(object, key, Json::value_t::string, where).get<std::string>();
}

std::vector<std::string> texts(const Json& list, std::string_view where) {
  std::vector<std::string> result;
  for (const Json& item : list) {
    if (!item.is_string()) fail(where, ": expected names, got ", shortened(item.dump()));
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::int64_t whole_number(const Json& value, std::string_view where) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>()));
  if (!fits) fail(where, ": expected a whole number, got ", shortened(value.dump()));
  return value.get<std::int64_t>();
}

Attribute attribute(const Json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number()) return whole_number(value, where);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array())
    fail(where, ": expected a number, a truth value, a text or a list, got ", shortened(value.dump()));
  if (std::ranges::any_of(value, [](const Json& item) { return item.is_number_float(); })) {
    std::vector<double> numbers;
    for (const Json& item : value) {
      if (!item.is_number()) fail(where, ": expected numbers, got ", shortened(item.dump()));
      numbers.push_back(item.get<double>());
    }
    return numbers;
  }
  std::vector<std::int64_t> list;
  for (const Json& item : value) list.push_back(whole_number(item, where));
  return list;
}

/// The names for extents that are not numbers.
constexpr std::pair<std::string_view, std::int64_t> open_extents[] = {{"N", batch}, {"?", open}, {"...", any_rank}};

Shape input_shape(const Json& list, const std::string& where) {
  std::vector<std::int64_t> extents;
  for (const Json& item : list) {
    const auto named = std::ranges::find_if(open_extents, [&](const auto& each) { return item == Json(each.first); });
    if (named != std::end(open_extents)) {
      extents.push_back(named->second);
      continue;
    }
    const std::int64_t extent = whole_number(item, where);
    if (extent < 0)
      fail(where,
           ": expected extents of 0 or more (or \"N\" for the batch, \"?\" for an open one, \"...\" for all), got ",
           extent);
    extents.push_back(extent);
  }
  if (extents.size() > Shape::max_rank) fail(where, ": expected at most ", Shape::max_rank, " extents");
  return Shape(extents);
}

void add_inputs(Graph& graph, const Json& root, std::map<std::string, Value>& values) {
  for (const Json& input : member(root, "inputs", Json::value_t::array, "lamina.graph")) {
    require_keys(input, {"name", "dtype", "shape"}, "lamina.graph inputs");
    const std::string name = text(input, "name", "lamina.graph inputs");
    const std::string dtype = input.contains("dtype") ? text(input, "dtype", name) : "f32";
    const std::optional<DType> known = find_dtype(dtype);
    if (!known) fail(name, ": there is no type ", quote(dtype));
    values[name] = graph.input(name, input_shape(member(input, "shape", Json::value_t::array, name), name), *known);
  }
}

struct NodeText {
  std::string op;
  std::vector<std::string> inputs;
  Attributes attributes;
};

NodeText node_text(const Json& node, const std::string& name) {
  require_keys(node, {"name", "op", "inputs", "attrs"}, name);
  NodeText result;
  result.op = text(node, "op", name);
  result.inputs = texts(member(node, "inputs", Json::value_t::array, name), name);
  if (!node.contains("attrs")) return result;
  for (const auto& [key, value] : member(node, "attrs", Json::value_t::object, name).items())
    result.attributes.emplace_back(key, attribute(value, name + ": attribute " + quote(key)));
  return result;
}

/// A module that Lamina has a class for, or an op.
std::shared_ptr<Module> make_node(const NodeText& node, const NodeSpec& spec) {
  if (node.op == "Constant") {
    const std::optional<Tensor> value = spec.parameter("");
    if (!value) fail("Constant: the file has no tensor of this name");
    auto constant = std::make_shared<Constant>(value->shape(), value->dtype());
    for (const auto& [key, attribute] : node.attributes) {
      const auto* input = std::get_if<std::vector<std::int64_t>>(&attribute);
      if (key != "input" || input == nullptr) fail("Constant: expected no attribute but \"input\", got ", quote(key));
      constant->offer(Shape(*input));
    }
    return constant;
  }
  if (find_op(node.op) != nullptr) return std::make_shared<Op>(node.op, node.attributes);
  return make_module(node.op, spec);
}

void add_node(Graph& graph, const std::string& name, const NodeText& node, const Weights& weights,
              std::map<std::string, Value>& values) {
  const NodeSpec spec = {.attributes = node.attributes,
                         .parameter = [&](std::string_view parameter) -> std::optional<Tensor> {
                           return weights.find(parameter_key(name, std::string(parameter)));
                         }};
  std::shared_ptr<Module> module = at_node(name, [&] { return make_node(node, spec); });
  std::vector<Value> inputs;
  for (const std::string& input : node.inputs) inputs.push_back(input.empty() ? Value() : values.at(input));
  values[name] = graph.add(name, std::move(module), inputs);
}

/// A node of the file that is not yet one of the graph.
struct Waiting {
  std::string name;
  NodeText text;
};

/// A file may list its nodes in any order.
void add_nodes(Graph& graph, const Json& root, const Weights& weights, std::map<std::string, Value>& values) {
  const Json& list = member(root, "nodes", Json::value_t::array, "lamina.graph");
  if (list.size() > max_nodes) fail("lamina.graph: expected at most ", max_nodes, " nodes, got ", list.size());
  std::vector<Waiting> nodes;
  std::map<std::string, int> places;
  for (const Json& node : list) {
    if (!node.is_object()) fail("lamina.graph nodes: expected objects, got ", shortened(node.dump()));
    const std::string name = text(node, "name", "lamina.graph nodes");
    if (values.contains(name) || !places.emplace(name, static_cast<int>(nodes.size())).second)
      fail(quote(name), ": there is a node of this name already");
    nodes.push_back({name, node_text(node, name)});
  }
  std::vector<std::vector<int>> needed(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].text.inputs) {
      if (input.empty() || values.contains(input)) continue;  // left out, or an input of the graph
      const auto place = places.find(input);
      if (place == places.end()) fail(nodes[i].name, ": there is no node ", quote(input), " to take as input");
      needed[i].push_back(place->second);
    }
  }
  for (const int i : in_order(needed)) {
    const Waiting& node = nodes[static_cast<std::size_t>(i)];
    add_node(graph, node.name, node.text, weights, values);
  }
  for (const Waiting& node : nodes) {
    if (!values.contains(node.name)) fail(node.name, ": is part of a cycle or depends on one");
  }
}

Json to_json(const Attribute& attribute) {
  return std::visit([](const auto& value) { return Json(value); }, attribute);
}

}  // namespace

Graph graph_from_json(std::string_view source, const Weights& weights) {
  if (source.size() > longest_text)
    fail("lamina.graph: expected at most ", longest_text, " bytes, got ", source.size());
  const Json root = parse_json<Json>(source, "lamina.graph");
  require_keys(root, {"version", "inputs", "nodes", "outputs"}, "lamina.graph");
  const auto version = root.find("version");
  if (version == root.end() || *version != 1)
    fail("lamina.graph: expected version 1, got ", version == root.end() ? "none" : shortened(version->dump()));
  Graph graph;
  std::map<std::string, Value> values;
  add_inputs(graph, root, values);
  add_nodes(graph, root, weights, values);
  for (const std::string& name : texts(member(root, "outputs", Json::value_t::array, "lamina.graph"), "lamina.graph")) {
    if (!values.contains(name)) fail("lamina.graph: there is no node ", quote(name), " to be an output");
    graph.output(values.at(name));
  }
  if (graph.outputs().empty()) fail("lamina.graph: expected an output");
  return graph;
}

std::string graph_to_json(const Graph& graph) {
  Json inputs = Json::array();
  Json nodes = Json::array();
  Json outputs = Json::array();
  const auto name_of = [&](int node) { return graph.nodes()[static_cast<std::size_t>(node)].name; };
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) {
      Json shape = Json::array();
      for (const std::int64_t extent : *node.shape) {
        const auto named = std::ranges::find_if(open_extents, [&](const auto& each) { return each.second == extent; });
        shape.push_back(named == std::end(open_extents) ? Json(extent) : Json(named->first));
      }
      inputs.push_back({{"name", node.name}, {"dtype", name(node.dtype)}, {"shape", std::move(shape)}});
      continue;
    }
    Json entry = {{"name", node.name}, {"op", node.module->op()}, {"inputs", Json::array()}};
    for (const int input : node.inputs) entry["inputs"].push_back(input < 0 ? std::string() : name_of(input));
    for (const auto& [key, value] : node.module->attributes()) entry["attrs"][key] = to_json(value);
    nodes.push_back(std::move(entry));
  }
  for (const int output : graph.outputs()) outputs.push_back(name_of(output));
  try {
    return Json{{"version", 1}, {"inputs", inputs}, {"nodes", nodes}, {"outputs", outputs}}.dump();
  } catch (const Json::exception&) {
    fail("lamina.graph: the name of a node is not UTF-8, as a file of safetensors needs it");
  }
}

}  // namespace lamina::detail
