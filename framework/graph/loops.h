#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/ops/network.h"

/// Loops of a known trip count, whose body becomes nodes of the Network as often.
///
/// A body stands once in the Graph, beside its Loop. Its own inputs are ops LoopValue: the number of the iteration,
/// whether to go on, and what is carried on. A Loop's operands are these; -1; the trip count, whether to begin, and the
/// first of what is carried on; and what the body makes: whether to go on, what is carried on, and parts that are
/// stacked behind the last iteration. Its outputs are what was carried on, and the stacks.
namespace lamina::detail {

bool is_loop(const Graph::Node& node);
bool is_loop_value(const Graph::Node& node);

/// What of a Loop's operands is needed whatever the trip count is.
std::span<const int> certain_of_loop(const Graph::Node& loop);

/// What becomes of a Graph's nodes, for `unrolled`.
struct LoopNodes {
  std::function<int(int node)> make;             ///< what a node is in the Network
  std::function<void(int node)> forget;          ///< it will be made anew
  std::function<void(int node, int made)> bind;  ///< it is that; -1: nothing any more
  bool drop = false;           ///< there are only inputs with a value: constants of past iterations are of no use
  int depth = 0;               ///< of the Loops that are being made
  std::int64_t looked_at = 0;  ///< nodes of the Graph, for what is in a body
  std::int64_t made = 0;       ///< nodes, in all iterations of all Loops
};

/// A Loop's outputs where its trip count is made of counts, so that a run says it. `body`: what depends on the values
/// of its body. Throws Error where its outputs have not as many rows in each iteration.
std::vector<int> run_loop(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> body,
                          std::size_t outputs, Network& network, LoopNodes& by);

/// A Loop's outputs. Throws Error if it has too many iterations; UnboundInputs where they depend on inputs.
std::vector<int> unrolled(const std::vector<Graph::Node>& nodes, std::size_t loop, Network& network, LoopNodes& by);

}  // namespace lamina::detail
