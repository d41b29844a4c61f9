// Questions about a Graph's shapes that resolve.cpp does not answer.

#include <utility>

#include "lamina/base/error.h"
#include "lamina/graph/resolve.h"

namespace lamina::detail {

std::vector<std::string> node_names(const Graph& graph, bool inputs) {
  std::vector<std::string> names;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr || (inputs ? node.is_optional() : !node.inputs.empty())) names.push_back(node.name);
  }
  return names;
}

Resolved resolve_batched(const Graph& graph, const CompileOptions& options, const Release& release) {
  // Outputs that have one row less where the batch is one less. One image is the least: there is nothing to leave out.
  std::vector<Shape> smaller;
  if (options.batch > 1) {
    CompileOptions fewer = options;
    fewer.keep_all = false;
    --fewer.batch;
    try {
      const Resolved other = resolve(graph, fewer);
      for (const int output : other.outputs) smaller.push_back(other.network[output].shape);
    } catch (const Error&) {
      // It takes this batch and no other.
    }
  }
  Resolved resolved = resolve(graph, options, release);
  resolved.output_batched.assign(resolved.output_names.size(), false);
  for (std::size_t i = 0; i < resolved.output_names.size() && !smaller.empty(); ++i) {
    if (!resolved.output_counts[i].empty()) continue;
    Shape shape = resolved.network[resolved.outputs[i]].shape;
    if (shape.rank() == 0 || shape[0] != options.batch) continue;
    shape.set(0, options.batch - 1);
    resolved.output_batched[i] = smaller[i] == shape;
  }
  return resolved;
}

}  // namespace lamina::detail

namespace lamina {

std::vector<Shape> Graph::shapes(std::int64_t n) const {
  const detail::Resolved resolved = detail::resolve(*this, {.batch = n, .keep_all = true});
  std::vector<Shape> result;
  for (const int node : resolved.node) result.push_back(node < 0 ? Shape() : resolved.network[node].shape);
  return result;
}

}  // namespace lamina
