#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/import.h"

namespace lamina::detail::onnx {

/// What the rules of rules.cpp add nodes by.
class Builder {
 public:
  virtual ~Builder() = default;
  /// A constant called `name`, or something like it if that is taken. Returns its node.
  virtual int constant(std::string name, Tensor value) = 0;
  virtual int op(std::string name, std::string op, Attributes attributes, std::vector<int> inputs) = 0;
  /// Undefined unless the node is a constant.
  virtual Tensor value_of(int node) = 0;
  virtual Tensor read(const TensorProto& tensor) = 0;
};

/// A node of the model about to become nodes of the graph.
struct Call {
  std::string op;
  Attributes attributes = {};
  const TensorProto* tensor = nullptr;  // of the attribute "value", the one tensor that an op of ONNX's domain may have
  std::string strange = {};       // an attribute that is not among `attributes` and that no rule has taken; if any
  std::vector<int> inputs = {};   // nodes; -1 where one is left out
  std::size_t outputs = 0;        // that the node writes
  std::vector<bool> wanted = {};  // of these
  std::int64_t version = 0;
  std::string name = {};  // of the first wanted output
  Builder& builder;

  bool has(std::size_t input) const { return input < inputs.size() && inputs[input] >= 0; }
  void set_input(std::size_t place, int node);
  bool wants(std::size_t output) const { return output < wanted.size() && wanted[output]; }

  const Attribute* find(std::string_view attribute) const;
  void set(std::string_view attribute, Attribute value);
  void erase(std::string_view attribute);
  /// The attribute, which is taken away; `fallback` where there is none. Throws Error if it is of another type.
  std::int64_t take_integer(std::string_view attribute, std::int64_t fallback);
  double take_number(std::string_view attribute, double fallback);
  std::string take_text(std::string_view attribute, std::string_view fallback);
  std::vector<std::int64_t> take_integers(std::string_view attribute);
  std::vector<double> take_numbers(std::string_view attribute);

  // Constants that attributes of old became.
  int integers(std::string_view what, const std::vector<std::int64_t>& values);
  int number(std::string_view what, double value);  // f32
};

/// Brings a call of an older operator set to the meaning of the newest. Throws Error, in the user's words, for what
/// Lamina does not do with an op that it otherwise has.
void modernise(Call& call);

/// Whether it is one of ONNX Runtime's own ops that are known here, and what such a one is in ONNX's.
bool is_microsoft(std::string_view domain, std::string_view op);
void from_microsoft(Call& call);

}  // namespace lamina::detail::onnx
