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
      default: message.skip();
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
      default: message.skip();
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
        if (shape.field() != 1) {
          shape.skip();
          continue;
        }
        const Place dim_place{place.source, &shape_place, "dimension", count(value.dims)};
        value.dims.push_back(decode_dimension(shape.bytes(), dim_place));
      }
    } else {
      message.skip();
    }
  }
}

void decode_type(std::span<std::byte> bytes, const Place& place, ValueInfoProto& value) {
  Message message(bytes, place);
  while (message.next()) {
    const std::uint32_t field = message.field();
    switch (field) {
      case 1:
        value.kind = "tensor";
        decode_tensor_type(message.bytes(), place, value);
        break;
      case 4: value.kind = "sequence"; break;
      case 5: value.kind = "map"; break;
      case 8: value.kind = "sparse tensor"; break;
      case 9: value.kind = "optional"; break;
      default: break;
    }
    if (field != 1) message.skip();
  }
}

ValueInfoProto decode_value_info(std::span<std::byte> bytes, const Place& place) {
  ValueInfoProto value;
  Message message(bytes, place);
  while (message.next()) {
    switch (message.field()) {
      case 1: value.name = message.text(); break;
      case 2: decode_type(message.bytes(), {place.source, &place, "type"}, value); break;
      default: message.skip();
    }
  }
  return value;
}

/// Every field that an AttributeProto may carry its value in; `type` says which one counts.
struct AttributeFields {
  float f = 0;
  std::int64_t i = 0;
  std::string s;
  std::shared_ptr<const TensorProto> t;
  std::shared_ptr<const GraphProto> g;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
};

enum AttributeType : std::int32_t { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS };

/// The type that the field of this number holds; 0: one that Lamina does not read.
std::int32_t type_of_field(std::uint32_t field) { return field >= 2 && field <= 9 ? static_cast<int>(field) - 1 : 0; }

void set_value(AttributeProto& attribute, AttributeFields&& fields, const Place& place) {
  switch (attribute.type) {
    case FLOAT: attribute.value = fields.f; break;
    case INT: attribute.value = fields.i; break;
    case STRING: attribute.value = std::move(fields.s); break;
    case FLOATS: attribute.value = std::move(fields.floats); break;
    case INTS: attribute.value = std::move(fields.ints); break;
    case STRINGS: attribute.value = std::move(fields.strings); break;
    case TENSOR:
      if (fields.t == nullptr) fail(place.text(), ": expected a tensor for attribute ", quote(attribute.name));
      attribute.value = std::move(fields.t);
      break;
    case GRAPH:
      if (fields.g == nullptr) fail(place.text(), ": expected a graph for attribute ", quote(attribute.name));
      attribute.value = std::move(fields.g);
      break;
    default: break;
  }
}

AttributeProto decode_attribute(std::span<std::byte> bytes, const Place& place) {
  AttributeProto attribute;
  AttributeFields fields;
  std::int32_t found = 0;  // the type of what was there; files of 2017 do not say `type`
  Message message(bytes, place);
  while (message.next()) {
    const std::uint32_t field = message.field();
    if (const std::int32_t type = type_of_field(field); type != 0) found = type;
    switch (field) {
      case 1: attribute.name = message.text(); break;
      case 2: fields.f = message.number(); break;
      case 3: fields.i = message.integer(); break;
      case 4: fields.s = message.text(); break;
      case 5:
        fields.t = std::make_shared<TensorProto>(decode_tensor(message.bytes(), Place{place.source, &place, "tensor"}));
        break;
      case 6:
        fields.g = std::make_shared<GraphProto>(decode_graph(message.bytes(), {place.source, &place, "graph"}));
        break;
      case 7: each_number<float>(message, [&](float value) { fields.floats.push_back(value); }); break;
      case 8: each_integer(message, [&](std::int64_t value) { fields.ints.push_back(value); }); break;
      case 9: fields.strings.push_back(message.text()); break;
      case 20: attribute.type = message.integer32(); break;
      case 21: attribute.ref_attr_name = message.text(); break;
      default: message.skip();
    }
  }
  if (attribute.type == 0) attribute.type = found;
  if (found != 0 && attribute.type != found && attribute.type <= STRINGS) {
    fail(place.text(), ": attribute ", quote(attribute.name), " says that it is of type ", attribute.type,
         " and holds a value of type ", found);
  }
  if (attribute.ref_attr_name.empty()) set_value(attribute, std::move(fields), place);
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
      default: message.skip();
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
      case 15: ++graph.sparse_initializers; [[fallthrough]];
      default: message.skip();
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
      default: message.skip();
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
      default: message.skip();
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
      case 20: model.training = true; [[fallthrough]];
      default: message.skip(); break;
      case 25: append(model.functions, message, "function", decode_function); break;
    }
  }
  if (!has_graph) fail(file->path(), ": there is no graph in it: not an ONNX model");
  model.file = std::move(file);
  return model;
}

}  // namespace lamina::detail::onnx
