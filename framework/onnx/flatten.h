#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/file/tensors.h"

namespace lamina::detail::onnx {

/// An attribute of a node, with what it refers to put in.
struct Argument {
  std::string_view name;
  const AttributeProto* attribute;
};

/// A value of the model: an input, a constant, or an output of a node.
struct FlatValue {
  std::string name;                       // unique
  int node = -1;                          // that makes it
  const TensorProto* stored = nullptr;    // of a constant of the file
  Tensor tensor = {};                     // of a constant that an attribute writes in numbers
  const ValueInfoProto* input = nullptr;  // of a constant that may be given

  bool is_constant() const { return stored != nullptr || tensor.defined(); }
};

struct FlatNode {
  std::string_view op, domain = {};  // "" for ONNX's own
  std::int64_t version = 0;          // of the domain's operator set
  std::string name;                  // for messages
  std::vector<int> inputs = {};      // values; -1 where one is left out
  std::vector<int> outputs = {};     // values; -1 where nobody wants one
  std::vector<Argument> arguments = {};
};

/// A model without functions. Names, attributes and tensors are the ModelProto's, which must outlive it.
struct FlatGraph {
  std::vector<FlatValue> values;
  std::vector<FlatNode> nodes;
  std::vector<int> inputs;   // values; the graph's inputs, in order, without those that are initializers too
  std::vector<int> outputs;  // values
  std::vector<int> order;    // of the nodes that the outputs need: each after those that it needs
};

/// Puts the bodies of the model's functions where they are called, and where an If stands the branch that is taken, if
/// its condition is a constant, else both and a choice between them; sorts what the outputs need. Names within a body
/// get the call's in front. Throws Error for names that are missing or made twice, cycles, and bodies that grow without
/// measure.
FlatGraph flatten(const ModelProto& model, Tensors& tensors);

}  // namespace lamina::detail::onnx
