#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/ops/network.h"

/// Loops whose trip count is known are unrolled: the body becomes nodes of the Network once for each iteration. Loops
/// and Ifs that only a run can decide become operations which do the bodies by themselves.
///
/// A body stands once in the Graph, beside its Loop. Its own inputs are ops LoopValue: the number of the iteration,
/// whether to go on, and the carried values. A Loop's operands are, in order: these inputs; -1; the trip count, whether
/// to begin, and the first carried values; and the body's results, which are whether to go on, the next carried values,
/// and the parts that are stacked after the last iteration. A Loop's outputs are the last carried values and the
/// stacks.
namespace lamina::detail {

bool is_loop(const Graph::Node& node);
bool is_loop_value(const Graph::Node& node);
bool is_choice(const Graph::Node& node);  ///< an If

/// The operands that a node needs in any case: of an If the condition, of a Loop those that it needs before it begins,
/// of other nodes all.
std::span<const int> certain_inputs(const Graph::Node& node);

constexpr int deepest = 64;                   ///< of Loops within Loops, and of branches
constexpr std::int64_t most_nodes = 100'000;  ///< of all iterations, and of all branches

/// What loops and branches ask about the Graph's nodes while the Network is made, and change in it.
struct LoopNodes {
  std::function<int(int node)> make;             ///< makes a node, and returns its number in the Network
  std::function<int(int node)> find;             ///< the number of a node that is made already; else -1
  std::function<bool(int node)> needed;          ///< whether a node will be made in any case
  std::function<void(int node)> forget;          ///< lets a node be made anew
  std::function<void(int node, int made)> bind;  ///< says what a node is; -1: nothing any more
  std::shared_ptr<std::shared_ptr<ThreadPool>> pool = std::make_shared<std::shared_ptr<ThreadPool>>();  ///< of Ifs
  bool drop = false;           ///< all inputs have values, so constants of past iterations can be dropped
  int depth = 0;               ///< how many Loops are being made within each other
  std::int64_t looked_at = 0;  ///< how many nodes of the Graph were looked at to find bodies
  std::int64_t made = 0;       ///< how many nodes were made, in all iterations of all Loops
  std::map<int, std::vector<int>> outputs = {};  ///< of Loops, by their first operand
};

/// The type in which bodies that are computed on the host get and give values of this type: f32 for those of 16 bits.
inline DType on_host(DType dtype) { return is_activation(dtype) ? DType::f32 : dtype; }

/// A body as a Graph of its own. Its inputs are the values that it reads from outside.
struct Alone {
  struct Outer {
    std::string name;
    Tensor value;      // undefined if only a run computes it
    int operand = -1;  // then
    int axis = -1;     // the last axis that has a count, and the operand that says it
    int count = -1;
  };

  Graph graph;
  std::vector<Outer> outer;
};

/// Copies a body out of its Graph into a Graph of its own.
class Body {
 public:
  /// `op`: the op that the body belongs to, for messages. `operands`: gets the nodes of the Network that the body
  /// reads.
  Body(std::string_view op, const std::vector<Graph::Node>& nodes, Network& network, LoopNodes& by,
       std::vector<int>& operands)
      : alone(std::make_shared<Alone>()), op_(op), nodes_(nodes), network_(network), by_(by), operands_(operands) {}

  /// Adds a node of the Graph. Nodes of the body that it reads must have been added before.
  void take(int node);
  /// Adds a node that is none of the Graph's, but reads nodes of the Graph; those that are not of the body are made
  /// outside of it.
  Value add(std::string name, std::shared_ptr<Module> module, std::span<const int> inputs);

  const std::shared_ptr<Alone> alone;

 private:
  Value read(int input);
  int operand(int id) {
    operands_.push_back(id);
    return static_cast<int>(operands_.size()) - 1;
  }

  std::string_view op_;
  const std::vector<Graph::Node>& nodes_;
  Network& network_;
  LoopNodes& by_;
  std::vector<int>& operands_;
  std::map<int, Value> values_;  // values of the body's Graph, by node of the Graph that the body is copied from
};

/// The outputs of a Loop whose trip count is made of counts, so that only a run knows it. `body`: the nodes that depend
/// on the body's own inputs. Throws Error unless its outputs have equally many rows in each iteration.
std::vector<int> run_loop(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> body,
                          std::size_t outputs, Network& network, LoopNodes& by);

/// One output of a Loop; all outputs are made with it. Throws Error if there are too many iterations, UnboundInputs if
/// their number depends on inputs.
int loop_output(const std::vector<Graph::Node>& nodes, std::size_t loop, Network& network, LoopNodes& by);

/// Whether a node is an If that each run decides.
bool run_decides(const Graph::Node& node, const Network& network, const LoopNodes& by);

/// The nodes that both branches of such an If read. They are made before it, whatever the condition is.
std::vector<int> read_by_both(const std::vector<Graph::Node>& nodes, std::size_t choice, const LoopNodes& by);

/// Makes such an If, together with the Ifs beside it that have the same condition: each branch becomes a Plan, and a
/// run does one of the two. Returns the If's output; -1 if a branch reads values with counts, so that both branches
/// have to be computed and the result chosen element by element. Throws Error if the branches do not fit; UnboundInputs
/// if one of them alone may do once some inputs are bound.
int branch_output(const std::vector<Graph::Node>& nodes, std::size_t choice, Network& network, LoopNodes& by,
                  const CompileOptions& options);

}  // namespace lamina::detail
