#pragma once

#include <string>
#include <string_view>

#include "lamina/graph/graph.h"

/// The graph inside a model file, as JSON text under the metadata key `lamina.graph`; docs/formats.md describes it.
namespace lamina::detail {

/// Throws Error, naming the node, for malformed JSON, a version other than 1, an unknown op or attribute, an unknown or
/// missing input, a cycle, a duplicate name, or a parameter that `weights` has not. Parameters are not loaded yet.
Graph graph_from_json(std::string_view text, const Weights& weights);

std::string graph_to_json(const Graph& graph);

}  // namespace lamina::detail
