#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/base/mapped_file.h"
#include "lamina/module/attributes.h"
#include "lamina/tensor/tensor.h"

namespace lamina::detail::onnx {

inline constexpr std::int64_t batch_extent = -1, open_extent = -2, any_extents = -3;  // lamina::batch and so on

/// One node of a Lamina Graph to be: an input, a constant, or one output of an ONNX node.
struct ImportedNode {
  enum class Kind { input, constant, op };

  Kind kind = Kind::op;
  std::string name;  // of the ONNX value, unique; any bytes

  // Of an input, and of a constant that may be given another value.
  std::vector<std::int64_t> shape = {};  // batch_extent and open_extent among them, or any_extents
  bool optional = false;                 // such a constant
  DType dtype = DType::f32;

  Tensor value = {};  // of a constant: a view of the mapped file where that can be

  // Of an op: its name and attributes in the meaning of ONNX's newest operator set, save those that `import_model`
  // lists.
  std::string op = {};
  Attributes attributes = {};
  std::vector<int> inputs = {};  // earlier nodes; -1 where an optional one is left out, never at the end
};

/// An .onnx file as a list of nodes, each after its inputs. What no output needs is left out, but for inputs.
struct Imported {
  std::vector<ImportedNode> nodes;
  std::vector<int> inputs, outputs;  // nodes, in the model's order
  std::string name;                  // of the graph
  std::string producer;              // "pytorch 2.5.1"
  std::int64_t opset = 0;
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Reads a model. `knows` says whether an op of ONNX's own domain can be run; all that cannot be is listed in one
/// Error: op, operator set, the first node, how many.
///
/// Older operator sets are brought to the meaning of the newest: attributes become the inputs that they are today, and
/// so on. Attributes that ONNX has not:
/// - "output" of 1 or more: which of the op's outputs this node is, where it is not the first;
/// - "num_outputs" of Split, always where there are no sizes;
/// - "flatten" of 1 on Softmax, LogSoftmax and Hardmax before opset 13: of the matrix that the input is when its axes
///   from `axis` on are made one, and those before it.
/// Lists of texts (the activations of LSTM) are one text with commas. Constant and ConstantOfShape do not occur.
Imported import_model(std::shared_ptr<const MappedFile> file, bool (*knows)(std::string_view op));

}  // namespace lamina::detail::onnx
