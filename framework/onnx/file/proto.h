#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lamina/base/mapped_file.h"

/// What an .onnx file says, message by message, under the names that onnx.proto gives them. What a network's results do
/// not depend on (doc strings, annotations, device configurations) is passed over.
namespace lamina::detail::onnx {

// The operator sets of ONNX's own domain that Lamina knows.
inline constexpr std::int64_t oldest_opset = 7, newest_opset = 27;

inline constexpr std::int32_t data_type_bool = 9;  // TensorProto.DataType

/// One of the file's tensors: described and checked, not yet read. `read_tensor` reads it.
/// The number of TensorProto's field that holds a tensor's bytes as they are in memory.
inline constexpr int raw_data = 9;

struct TensorProto {
  std::string name;
  std::vector<std::int64_t> dims;
  std::int32_t data_type = 0;  // TensorProto.DataType
  bool segment = false;        // a part of a tensor: nobody writes these
  bool external = false;       // in a file of its own, which `location` and the rest describe
  std::string location, offset, length;
  std::span<std::byte> encoded;     // the whole message, for what is read later
  std::span<std::byte> raw;         // raw_data, in the file
  int data_field = 0;               // number of the field that holds the elements, or raw_data; 0 if there is none
  std::uint64_t data_elements = 0;  // in the typed field
};

struct GraphProto;

struct AttributeProto {
  // The types that an inference network needs. A shared graph: inlining a function copies its nodes.
  using Value = std::variant<std::monostate, float, std::int64_t, std::string, std::shared_ptr<const TensorProto>,
                             std::shared_ptr<const GraphProto>, std::vector<float>, std::vector<std::int64_t>,
                             std::vector<std::string>>;

  std::string name;
  std::string ref_attr_name;  // in a function: the attribute of the call that it takes its value from
  std::int32_t type = 0;      // AttributeType
  Value value;                // none: of a type that Lamina does not read, or of a reference
};

struct NodeProto {
  std::vector<std::string> inputs, outputs;  // "": an optional one that is left out
  std::string name, op_type, domain, overload;
  std::vector<AttributeProto> attributes;
};

/// A name, and the type if it is said.
struct ValueInfoProto {
  struct Dimension {
    std::int64_t value = 0;
    bool known = false;  // by value; else `param` names it, or nothing does
    std::string param;
  };

  std::string name;
  std::string_view kind;       // "tensor", "sequence", "map", "optional", "sparse tensor"; empty where it is not said
  std::int32_t data_type = 0;  // of a tensor
  bool has_shape = false;
  std::vector<Dimension> dims;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfoProto> inputs, outputs;
  std::size_t sparse_initializers = 0;
};

struct OperatorSetIdProto {
  std::string domain;  // "": ONNX's own, as "ai.onnx" is
  std::int64_t version = 0;
};

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<AttributeProto> defaults;  // attribute_proto: attributes with values that a call may leave out
  std::vector<NodeProto> nodes;
  std::vector<OperatorSetIdProto> opsets;
};

struct ModelProto {
  std::int64_t ir_version = 0, model_version = 0;
  std::string producer_name, producer_version, domain;
  std::vector<OperatorSetIdProto> opsets;
  GraphProto graph;
  std::vector<FunctionProto> functions;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool training = false;

  std::shared_ptr<const MappedFile> file;  // what the tensors' bytes lie in
};

/// Decodes the whole file. Time and memory grow in proportion to it; tensors stay where they are. Throws Error naming
/// the file, the message, what was expected and what was found. Without LAMINA_ONNX always throws.
ModelProto decode(std::shared_ptr<const MappedFile> file);

}  // namespace lamina::detail::onnx
