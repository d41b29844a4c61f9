#pragma once

#include "fuzz/target.h"
#include "lamina/graph/graph.h"

namespace lamina::fuzz {

/// Compiles the graph, if what it takes is small, and runs it on small whole numbers: as it would be run, and with
/// nothing fused and the convolutions by the plainest loops. `broken` if their results differ. `variant`: any number,
/// which picks options. Throws Error.
void run_network(const Graph& graph, std::size_t variant);

}  // namespace lamina::fuzz
