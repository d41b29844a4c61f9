#pragma once

#include <string>
#include <vector>

#include "lamina/onnx/flatten.h"

namespace lamina::detail::onnx {

/// The nodes that the outputs need, each after those whose outputs it needs, otherwise as they stand. Throws Error,
/// naming the file at `path` and a node, if nodes need each other in a circle.
std::vector<int> sorted(const FlatGraph& graph, const std::string& path);

}  // namespace lamina::detail::onnx
