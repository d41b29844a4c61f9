#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "lamina/graph/model.h"

namespace lamina::python {

/// A model of the same network, whose modules are shared.
Model model_of(const Graph& graph, std::optional<Preprocess> preprocess, std::vector<std::string> labels);

/// Model files, the ready-made networks, and classes out of scores.
void bind_model(nanobind::module_& m);

}  // namespace lamina::python
