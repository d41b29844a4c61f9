#pragma once

#include <filesystem>

#include "lamina/base/export.h"
#include "lamina/graph/model.h"

namespace lamina::detail {

/// Whether there is an .onnx file, by its content. Throws Error if the file cannot be read.
LAMINA_API bool is_onnx_file(const std::filesystem::path& path);

/// The network of an .onnx file, weights included: a node for each input, constant and output of an op, named as the
/// file names the value; and what its exporter noted.
Model load_onnx(const std::filesystem::path& path);

}  // namespace lamina::detail
