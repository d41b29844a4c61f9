// Where models come from: Lamina's own files, and .onnx files.

#include <memory>
#include <utility>

#include "lamina/base/content.h"
#include "lamina/base/error.h"
#include "lamina/files/safetensors.h"
#include "lamina/graph/model.h"
#include "lamina/graph/notes.h"
#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/import.h"
#include "lamina/onnx/onnx.h"
#include "lamina/ops/op.h"
#include "lamina/ops/table.h"

namespace lamina {
namespace detail {
namespace {

bool knows(std::string_view op) { return find_op(op) != nullptr; }

Value add(Graph& graph, const std::vector<Value>& values, onnx::ImportedNode node) {
  using Kind = onnx::ImportedNode::Kind;
  if (node.kind == Kind::input) return graph.input(std::move(node.name), Shape(node.shape), node.dtype);
  std::vector<Value> inputs;
  for (const int input : node.inputs) inputs.push_back(input < 0 ? Value() : values[static_cast<std::size_t>(input)]);
  std::shared_ptr<Module> module;
  if (node.kind == Kind::constant) {
    auto constant = std::make_shared<Constant>(std::move(node.value));
    if (node.optional) constant->offer(Shape(node.shape));
    module = std::move(constant);
  } else {
    module = std::make_shared<Op>(std::move(node.op), std::move(node.attributes));
  }
  return graph.add(std::move(node.name), std::move(module), inputs);
}

bool is_onnx(const MappedFile& file) { return !looks_like_safetensors(file) && looks_like_onnx(file.bytes()); }

}  // namespace

bool is_onnx_file(const std::filesystem::path& path) { return is_onnx(*MappedFile::open(path)); }

Model load_onnx(std::shared_ptr<const MappedFile> file) {
  static_assert(onnx::batch_extent == batch && onnx::open_extent == open && onnx::any_extents == any_rank);
  onnx::Imported imported = onnx::import_model(std::move(file), knows);
  Model model;
  Graph& graph = model.graph;
  std::vector<Value> values;
  for (onnx::ImportedNode& node : imported.nodes) values.push_back(add(graph, values, std::move(node)));
  for (const int output : imported.outputs) graph.output(values[static_cast<std::size_t>(output)]);
  for (auto& [key, value] : imported.metadata) model.metadata[std::move(key)] = std::move(value);
  take_notes(model);
  return model;
}

}  // namespace detail

namespace {

Model load(std::shared_ptr<const detail::MappedFile> file) {
  if (detail::is_onnx(*file)) return detail::load_onnx(std::move(file));
  const Weights weights = Weights::open(file);
  return detail::at_node(file->path(), [&] { return model_from(weights); });
}

}  // namespace

Model load_model(const std::string& path) { return load(detail::MappedFile::open(path)); }

Model load_model(std::span<const std::byte> file, const std::string& name) {
  return load(detail::MappedFile::copy(file, name));
}

}  // namespace lamina
