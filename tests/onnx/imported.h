#pragma once

#include <string>

#include "lamina/onnx/import.h"
#include "support/file_test.h"

namespace lamina::test::onnx {

/// Imports `bytes` as a file called x.onnx, into a Lamina that has every op but Strange, Strange1, ...
inline detail::onnx::Imported import_bytes(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", bytes);
  return detail::onnx::import_model(detail::MappedFile::open(dir / "x.onnx"),
                                    [](std::string_view op) { return !op.starts_with("Strange") && op != "Constant"; });
}

/// "y: Clip(x, -, max) a=1, b=2"
inline std::string text(const detail::onnx::Imported& model, const detail::onnx::ImportedNode& node) {
  using Kind = detail::onnx::ImportedNode::Kind;
  const auto list = [](const auto& items, const auto& to_text) {
    std::string result;
    for (const auto& item : items) result += (result.empty() ? "" : ", ") + to_text(item);
    return result;
  };
  if (node.kind == Kind::input) {
    const std::string shape = list(node.shape, [](std::int64_t extent) { return std::to_string(extent); });
    return node.name + ": input " + std::string(name(node.dtype)) + " [" + shape + "]";
  }
  if (node.kind == Kind::constant) {
    return detail::concat(node.name, ": constant ", node.value.dtype(), ' ', node.value.shape());
  }
  const std::string inputs = list(node.inputs, [&](int input) {
    return input < 0 ? std::string("-") : model.nodes.at(static_cast<std::size_t>(input)).name;
  });
  const std::string attributes = to_string(node.attributes);
  return node.name + ": " + node.op + "(" + inputs + ")" + (attributes.empty() ? "" : " ") + attributes;
}

inline std::string text(const detail::onnx::Imported& model) {
  std::string result;
  for (const detail::onnx::ImportedNode& node : model.nodes) result += text(model, node) + '\n';
  result += "outputs";
  for (const int output : model.outputs) result += ' ' + model.nodes.at(static_cast<std::size_t>(output)).name;
  return result;
}

/// The ops alone.
inline std::string ops(const detail::onnx::Imported& model) {
  std::string result;
  for (const detail::onnx::ImportedNode& node : model.nodes) {
    if (node.kind == detail::onnx::ImportedNode::Kind::op) result += text(model, node) + '\n';
  }
  return result;
}

}  // namespace lamina::test::onnx
