#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/file_test.h"

/// Writes .onnx files by hand, so that tests need no library for it and can write wrong ones.
namespace lamina::test::onnx {

/// A Protocol Buffers message. Fields are written in the order of the calls.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(int field, float value) {
    tag(field, 5);
    bytes_ += raw(value);
    return *this;
  }
  Message& text(int field, const std::string& value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& texts(int field, const std::vector<std::string>& values) {
    for (const std::string& value : values) text(field, value);
    return *this;
  }
  Message& packed(int field, const std::vector<std::int64_t>& values) {
    Message list;
    for (const std::int64_t value : values) list.varint(static_cast<std::uint64_t>(value));
    return message(field, list);
  }
  /// Bytes as they are, right or wrong.
  Message& append(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type) { varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// TensorProto.DataType
enum DataType : std::int32_t {
  FLOAT = 1,
  UINT8 = 2,
  INT8 = 3,
  INT32 = 6,
  INT64 = 7,
  STRING = 8,
  BOOL = 9,
  FLOAT16 = 10
};

inline Message header(const std::string& name, std::int32_t type, const std::vector<std::int64_t>& dims) {
  return Message().packed(1, dims).integer(2, type).text(8, name);
}

/// A tensor with its elements in raw_data.
template <class T>
Message tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<T>& values,
               std::int32_t type) {
  std::string bytes;
  for (const T value : values) bytes += raw(value);
  return header(name, type, dims).text(9, bytes);
}
inline Message floats(const std::string& name, const std::vector<std::int64_t>& dims,
                      const std::vector<float>& values) {
  return tensor(name, dims, values, FLOAT);
}
inline Message ints(const std::string& name, const std::vector<std::int64_t>& values) {
  return tensor(name, {static_cast<std::int64_t>(values.size())}, values, INT64);
}

/// A tensor whose elements are in a file of their own. Empty texts are left out.
inline Message external(const std::string& name, const std::vector<std::int64_t>& dims, const std::string& location,
                        const std::string& offset = "", const std::string& length = "") {
  Message tensor = header(name, FLOAT, dims).integer(14, 1);
  const std::pair<std::string, std::string> entries[] = {
      {"location", location}, {"offset", offset}, {"length", length}};
  for (const auto& [key, value] : entries) {
    if (!value.empty()) tensor.message(13, Message().text(1, key).text(2, value));
  }
  return tensor;
}

// AttributeProto, with the type as IR versions from 2 on say it.
inline Message attribute(const std::string& name, std::int64_t value) {
  return Message().text(1, name).integer(3, value).integer(20, 2);
}
inline Message attribute(const std::string& name, int value) { return attribute(name, std::int64_t{value}); }
inline Message attribute(const std::string& name, float value) {
  return Message().text(1, name).number(2, value).integer(20, 1);
}
inline Message attribute(const std::string& name, const char* value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}
inline Message attribute(const std::string& name, const std::vector<std::int64_t>& values) {
  return Message().text(1, name).packed(8, values).integer(20, 7);
}
inline Message attribute(const std::string& name, const std::vector<float>& values) {
  Message result = Message().text(1, name).integer(20, 6);
  for (const float value : values) result.number(7, value);
  return result;
}
inline Message tensor_attribute(const std::string& name, const Message& tensor) {
  return Message().text(1, name).message(5, tensor).integer(20, 4);
}
inline Message graph_attribute(const std::string& name, const Message& graph) {
  return Message().text(1, name).message(6, graph).integer(20, 5);
}
/// An attribute of a function's node that takes its value from the call.
inline Message reference(const std::string& name, const std::string& from, std::int64_t type) {
  return Message().text(1, name).integer(20, type).text(21, from);
}

struct Node {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<Message> attributes = {};
  std::string name = {}, domain = {};
};

inline Message node(const Node& n) {
  Message result = Message().texts(1, n.inputs).texts(2, n.outputs);
  if (!n.name.empty()) result.text(3, n.name);
  result.text(4, n.op);
  if (!n.domain.empty()) result.text(7, n.domain);
  for (const Message& attribute : n.attributes) result.message(5, attribute);
  return result;
}

/// An extent: a number, or a name ("" for one that is neither).
using Extent = std::variant<int, const char*>;

inline Message value_info(const std::string& name, const std::vector<Extent>& shape, std::int32_t type = FLOAT) {
  Message extents;
  for (const Extent& extent : shape) {
    Message dimension;
    if (const int* number = std::get_if<int>(&extent)) dimension.integer(1, *number);
    if (const auto* param = std::get_if<const char*>(&extent); param != nullptr && **param != '\0') {
      dimension.text(2, *param);
    }
    extents.message(1, dimension);
  }
  return Message().text(1, name).message(2, Message().message(1, Message().integer(1, type).message(2, extents)));
}

struct Graph {
  std::vector<Node> nodes = {};
  std::vector<Message> initializers = {};
  std::vector<Message> inputs = {value_info("x", {1, 3, 4, 4})};
  std::vector<std::string> outputs = {"y"};
};

inline Message graph(const Graph& g) {
  Message result = Message().text(2, "g");
  for (const Node& n : g.nodes) result.message(1, node(n));
  for (const Message& initializer : g.initializers) result.message(5, initializer);
  for (const Message& input : g.inputs) result.message(11, input);
  for (const std::string& output : g.outputs) result.message(12, Message().text(1, output));
  return result;
}

inline Message opset(std::int64_t version, const std::string& domain = "") {
  return Message().text(1, domain).integer(2, version);
}

/// A whole model of one opset. `more` is appended to the ModelProto: functions, further opsets.
inline std::string model(const Message& graph, std::int64_t version = 23, const Message& more = {}) {
  return Message()
      .integer(1, 10)
      .text(2, "tests")
      .message(7, graph)
      .message(8, opset(version))
      .append(more.bytes())
      .bytes();
}
inline std::string model(const Graph& g, std::int64_t version = 23, const Message& more = {}) {
  return model(graph(g), version, more);
}

}  // namespace lamina::test::onnx
