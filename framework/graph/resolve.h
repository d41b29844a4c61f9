#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "lamina/ops/network.h"
#include "lamina/ops/op.h"

namespace lamina::detail {

/// A Graph for one batch, with what became of its nodes.
struct Resolved {
  Network network;
  std::vector<int> node;     ///< of the network, by node of the graph; -1: not needed for the outputs
  std::vector<int> end;      ///< by node of the graph: how many nodes the network had after it was made
  std::vector<int> inputs;   ///< of the network, in the graph's order, without those bound to constants
  std::vector<int> outputs;  ///< of the network, in the graph's order
  std::vector<int> counts;   ///< of the network: how many elements there are along axes of outputs where a run decides
  std::vector<std::vector<int>> output_counts;  ///< by output and axis: which of `counts` says so, or -1
  std::vector<std::string> output_names;
  std::vector<bool> input_batched;   ///< the first extent is the batch
  std::vector<bool> output_batched;  ///< likewise: see resolve_batched
};

/// Told the number of each node of a graph whose module is not needed any more; may be empty.
using Release = std::function<void(std::size_t node)>;

/// Puts in the batch, open extents and constants, and expands every Op. Nodes that no output needs are left out, unless
/// `options.keep_all`. Throws Error naming the node that does not fit, and UnboundInputs as that type says.
Resolved resolve(const Graph& graph, const CompileOptions& options, const Release& release = {});

/// The same for a Plan, which also has to know which outputs have the batch in front. Resolves twice, the first time
/// with a smaller batch.
Resolved resolve_batched(const Graph& graph, const CompileOptions& options, const Release& release);

/// The name of a node's parameter in state dicts: "features.0.weight"; of a Constant, the node's own.
inline std::string parameter_key(const std::string& node, const std::string& parameter) {
  return parameter.empty() ? node : node + '.' + parameter;
}

/// The names of all nodes but constants, or of the inputs, optional ones too.
std::vector<std::string> node_names(const Graph& graph, bool inputs = false);

}  // namespace lamina::detail
