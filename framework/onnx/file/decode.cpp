#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/onnx/file/decode_tensor.h"
#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/file/wire.h"

namespace lamina::detail::onnx {
namespace {

constexpr std::uint64_t max_messages = 4'000'000, max_names = 16'000'000;
constexpr int deepest = 64;  // of places: a graph in an attribute of a node of a graph is three

GraphProto decode_graph(std::span<std::byte> bytes, const Place& place);

OperatorSetIdProto decode_opset(std::span<std::byte> bytes, const Place& place) {
  OperatorSetIdProto opset;
  read(bytes, place, into(1, opset.domain), into(2, opset.version));
  return opset;
}

ValueInfoProto::Dimension decode_dimension(std::span<std::byte> bytes, const Place& place) {
  ValueInfoProto::Dimension result;
  read(bytes, place, Field(1, [&](Message& m) { result = {.value = m.integer(), .known = true, .param = {}}; }),
       Field(2, [&](Message& m) { result = {.value = 0, .known = false, .param = m.text()}; }));
  return result;
}

void decode_tensor_type(std::span<std::byte> bytes, const Place& place, ValueInfoProto& value) {
  const auto shape = [&](Message& message) {
    value.has_shape = true;
    value.dims.clear();
    read(message.bytes(), {place.source, &place, "shape"}, into(1, value.dims, "dimension", decode_dimension));
  };
  read(bytes, place, into(1, value.data_type), Field(2, shape));
}

void decode_type(std::span<std::byte> bytes, const Place& place, ValueInfoProto& value) {
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1:
        value.kind = "tensor";
        decode_tensor_type(message.bytes(), place, value);
        break;
      case 4: value.kind = "sequence"; break;
      case 5: value.kind = "map"; break;
      case 8: value.kind = "sparse tensor"; break;
      case 9: value.kind = "optional"; break;
    }
  }
}

ValueInfoProto decode_value_info(std::span<std::byte> bytes, const Place& place) {
  ValueInfoProto value;
  const auto type = [&](Message& message) { decode_type(message.bytes(), {place.source, &place, "type"}, value); };
  read(bytes, place, into(1, value.name), Field(2, type));
  return value;
}

// Also the alternatives of AttributeProto::Value, in their order.
enum AttributeType : std::int32_t { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS };

/// What an attribute of that type is whose value was left out.
AttributeProto::Value empty_value(const AttributeProto& attribute, const Place& place) {
  switch (attribute.type) {
    case FLOAT: return 0.0f;
    case INT: return std::int64_t{0};
    case STRING: return std::string();
    case FLOATS: return std::vector<float>();
    case INTS: return std::vector<std::int64_t>();
    case STRINGS: return std::vector<std::string>();
    case TENSOR: fail(place.text(), ": expected a tensor for attribute ", quote(attribute.name));
    case GRAPH: fail(place.text(), ": expected a graph for attribute ", quote(attribute.name));
    default: return {};
  }
}

/// The list that a value is, or becomes.
template <class T>
std::vector<T>& list_in(AttributeProto::Value& value) {
  auto* const list = std::get_if<std::vector<T>>(&value);
  return list != nullptr ? *list : value.emplace<std::vector<T>>();
}

AttributeProto decode_attribute(std::span<std::byte> bytes, const Place& place) {
  AttributeProto attribute;
  AttributeProto::Value& value = attribute.value;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: attribute.name = message.text(); break;
      case 2: value = message.number(); break;
      case 3: value = message.integer(); break;
      case 4: value = message.text(); break;
      case 5:
        value = std::make_shared<const TensorProto>(decode_tensor(message.bytes(), {place.source, &place, "tensor"}));
        break;
      case 6:
        value = std::make_shared<const GraphProto>(decode_graph(message.bytes(), {place.source, &place, "graph"}));
        break;
      case 7: each_number<float>(message, [&](float one) { list_in<float>(value).push_back(one); }); break;
      case 8: each_integer(message, [&](std::int64_t one) { list_in<std::int64_t>(value).push_back(one); }); break;
      case 9: list_in<std::string>(value).push_back(message.text()); break;
      case 20: attribute.type = message.integer32(); break;
      case 21: attribute.ref_attr_name = message.text(); break;
    }
  }
  const auto found = static_cast<std::int32_t>(value.index());
  if (attribute.type == 0) attribute.type = found;  // files of 2017 do not say it
  if (found != 0 && attribute.type != found && attribute.type <= STRINGS) {
    fail(place.text(), ": attribute ", quote(attribute.name), " says that it is of type ", attribute.type,
         " and holds a value of type ", found);
  }
  if (!attribute.ref_attr_name.empty()) {
    value = {};
  } else if (attribute.type != found) {
    value = empty_value(attribute, place);
  }
  return attribute;
}

NodeProto decode_node(std::span<std::byte> bytes, const Place& place) {
  NodeProto node;
  read(bytes, place, into(1, node.inputs), into(2, node.outputs), into(3, node.name), into(4, node.op_type),
       into(5, node.attributes, "attribute", decode_attribute), into(7, node.domain), into(8, node.overload));
  if (node.op_type.empty()) fail(place.text(), ": expected an op_type, got none");
  return node;
}

GraphProto decode_graph(std::span<std::byte> bytes, const Place& place) {
  if (place.depth() > deepest) fail(place.text(), ": graphs are nested too deep");
  GraphProto graph;
  read(bytes, place, into(1, graph.nodes, "node", decode_node), into(2, graph.name),
       into(5, graph.initializers, "initializer", decode_tensor), into(11, graph.inputs, "input", decode_value_info),
       into(12, graph.outputs, "output", decode_value_info), Field(15, [&](Message&) { ++graph.sparse_initializers; }));
  return graph;
}

FunctionProto decode_function(std::span<std::byte> bytes, const Place& place) {
  FunctionProto function;
  read(bytes, place, into(1, function.name), into(4, function.inputs), into(5, function.outputs),
       into(6, function.attributes), into(7, function.nodes, "node", decode_node),
       into(9, function.opsets, "opset_import", decode_opset), into(10, function.domain),
       into(11, function.defaults, "attribute", decode_attribute), into(13, function.overload));
  if (function.name.empty()) fail(place.text(), ": expected a name, got none");
  return function;
}

std::pair<std::string, std::string> decode_entry(std::span<std::byte> bytes, const Place& place) {
  std::pair<std::string, std::string> entry;
  read(bytes, place, into(1, entry.first), into(2, entry.second));
  return entry;
}

}  // namespace

ModelProto decode(std::shared_ptr<const MappedFile> file) {
  Source source{file->path(), max_messages, max_names};
  const Place place{source, nullptr, ""};
  ModelProto model;
  bool has_graph = false;
  const auto graph = [&](Message& message) {
    if (std::exchange(has_graph, true)) message.refuse("expected one graph, got a second");
    model.graph = decode_graph(message.bytes(), {source, &place, "graph"});
  };
  read(file->bytes(), place, into(1, model.ir_version), into(2, model.producer_name), into(3, model.producer_version),
       into(4, model.domain), into(5, model.model_version), Field(7, graph),
       into(8, model.opsets, "opset_import", decode_opset), into(14, model.metadata, "metadata_props", decode_entry),
       Field(20, [&](Message&) { model.training = true; }), into(25, model.functions, "function", decode_function));
  if (!has_graph) fail(file->path(), ": there is no graph in it: not an ONNX model");
  model.file = std::move(file);
  return model;
}

}  // namespace lamina::detail::onnx
