#include <algorithm>
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

template <class T>
std::int64_t count(const std::vector<T>& items) {
  return static_cast<std::int64_t>(items.size());
}

OperatorSetIdProto decode_opset(std::span<std::byte> bytes, const Place& place) {
  OperatorSetIdProto opset;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: opset.domain = message.text(); break;
      case 2: opset.version = message.integer(); break;
    }
  }
  return opset;
}

ValueInfoProto::Dimension decode_dimension(std::span<std::byte> bytes, const Place& place) {
  ValueInfoProto::Dimension dimension;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: dimension = {.value = message.integer(), .known = true, .param = {}}; break;
      case 2: dimension = {.value = 0, .known = false, .param = message.text()}; break;
    }
  }
  return dimension;
}

void decode_tensor_type(std::span<std::byte> bytes, const Place& place, ValueInfoProto& value) {
  Message message(bytes, place);
  while (message.next()) {
    if (message.field() == 1) {
      value.data_type = message.integer32();
    } else if (message.field() == 2) {
      value.has_shape = true;
      value.dims.clear();
      const Place shape_place{place.source, &place, "shape"};
      Message shape(message.bytes(), shape_place);
      while (shape.next()) {
        if (shape.field() != 1) continue;
        const Place dim_place{place.source, &shape_place, "dimension", count(value.dims)};
        value.dims.push_back(decode_dimension(shape.bytes(), dim_place));
      }
    }
  }
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
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: value.name = message.text(); break;
      case 2: decode_type(message.bytes(), {place.source, &place, "type"}, value); break;
    }
  }
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
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: node.inputs.push_back(message.text()); break;
      case 2: node.outputs.push_back(message.text()); break;
      case 3: node.name = message.text(); break;
      case 4: node.op_type = message.text(); break;
      case 5: {
        const Place inner{place.source, &place, "attribute", count(node.attributes)};
        node.attributes.push_back(decode_attribute(message.bytes(), inner));
        break;
      }
      case 7: node.domain = message.text(); break;
      case 8: node.overload = message.text(); break;
    }
  }
  if (node.op_type.empty()) fail(place.text(), ": expected an op_type, got none");
  return node;
}

template <class T, class F>
void append(std::vector<T>& items, Message& message, std::string_view what, const F& decode_item) {
  const Place inner{message.place().source, &message.place(), what, count(items)};
  items.push_back(decode_item(message.bytes(), inner));
}

GraphProto decode_graph(std::span<std::byte> bytes, const Place& place) {
  if (place.depth() > deepest) fail(place.text(), ": graphs are nested too deep");
  GraphProto graph;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: append(graph.nodes, message, "node", decode_node); break;
      case 2: graph.name = message.text(); break;
      case 5: append(graph.initializers, message, "initializer", decode_tensor); break;
      case 11: append(graph.inputs, message, "input", decode_value_info); break;
      case 12: append(graph.outputs, message, "output", decode_value_info); break;
      case 15: ++graph.sparse_initializers; break;
    }
  }
  return graph;
}

FunctionProto decode_function(std::span<std::byte> bytes, const Place& place) {
  FunctionProto function;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: function.name = message.text(); break;
      case 4: function.inputs.push_back(message.text()); break;
      case 5: function.outputs.push_back(message.text()); break;
      case 6: function.attributes.push_back(message.text()); break;
      case 7: append(function.nodes, message, "node", decode_node); break;
      case 9: append(function.opsets, message, "opset_import", decode_opset); break;
      case 10: function.domain = message.text(); break;
      case 11: append(function.defaults, message, "attribute", decode_attribute); break;
      case 13: function.overload = message.text(); break;
    }
  }
  if (function.name.empty()) fail(place.text(), ": expected a name, got none");
  return function;
}

std::pair<std::string, std::string> decode_entry(std::span<std::byte> bytes, const Place& place) {
  std::pair<std::string, std::string> entry;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: entry.first = message.text(); break;
      case 2: entry.second = message.text(); break;
    }
  }
  return entry;
}

}  // namespace

ModelProto decode(std::shared_ptr<const MappedFile> file) {
  Source source{file->path(), max_messages, max_names};
  const Place place{source, nullptr, ""};
  ModelProto model;
  bool has_graph = false;
  Message message(file->bytes(), place);
  while (message.next()) {
    switch (message.field()) {
      case 1: model.ir_version = message.integer(); break;
      case 2: model.producer_name = message.text(); break;
      case 3: model.producer_version = message.text(); break;
      case 4: model.domain = message.text(); break;
      case 5: model.model_version = message.integer(); break;
      case 7:
        if (has_graph) message.refuse("expected one graph, got a second");
        model.graph = decode_graph(message.bytes(), {source, &place, "graph"});
        has_graph = true;
        break;
      case 8: append(model.opsets, message, "opset_import", decode_opset); break;
      case 14: append(model.metadata, message, "metadata_props", decode_entry); break;
      case 20: model.training = true; break;
      case 25: append(model.functions, message, "function", decode_function); break;
    }
  }
  if (!has_graph) fail(file->path(), ": there is no graph in it: not an ONNX model");
  model.file = std::move(file);
  return model;
}

}  // namespace lamina::detail::onnx
