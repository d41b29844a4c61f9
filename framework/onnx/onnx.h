#pragma once

#include <filesystem>
#include <memory>

#include "lamina/base/export.h"
#include "lamina/base/mapped_file.h"
#include "lamina/graph/model.h"

namespace lamina {

/// Writes a network of ops that ONNX has too, values by the names of their nodes. Throws Error, naming the node, for
/// others, and if the file cannot be written.
LAMINA_API void save_onnx(const std::filesystem::path& path, const Graph& network);

}  // namespace lamina

namespace lamina::detail {

/// Throws the Error that `save_onnx` would throw of the network.
void require_onnx(const Graph& network);

/// Whether there is an .onnx file, by its content. Throws Error if the file cannot be read.
LAMINA_API bool is_onnx_file(const std::filesystem::path& path);

/// The network of an .onnx file, weights included: a node for each input, constant and output of an op, named as the
/// file names the value; and what its exporter noted.
Model load_onnx(std::shared_ptr<const MappedFile> file);

}  // namespace lamina::detail
