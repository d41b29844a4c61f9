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

/// Loops of a known trip count, whose body becomes nodes of the Network as often; and bodies that a run does by
/// themselves, of Loops and of an If's branches.
///
/// A body stands once in the Graph, beside its Loop. Its own inputs are ops LoopValue: the number of the iteration,
/// whether to go on, and what is carried on. A Loop's operands are these; -1; the trip count, whether to begin, and the
/// first of what is carried on; and what the body makes: whether to go on, what is carried on, and parts that are
/// stacked behind the last iteration. Its outputs are what was carried on, and the stacks.
namespace lamina::detail {

bool is_loop(const Graph::Node& node);
bool is_loop_value(const Graph::Node& node);
bool is_choice(const Graph::Node& node);  ///< an If

/// What a node needs whatever its operands are: of an If the condition, of a Loop what it needs before it begins.
std::span<const int> certain_inputs(const Graph::Node& node);

constexpr int deepest = 64;                   ///< of Loops within Loops, and of branches
constexpr std::int64_t most_nodes = 100'000;  ///< of all iterations, and of all branches

/// What becomes of a Graph's nodes, for `unrolled`.
struct LoopNodes {
  std::function<int(int node)> make;             ///< what a node is in the Network
  std::function<int(int node)> find;             ///< the same of one that is made; or -1
  std::function<bool(int node)> needed;          ///< it will be made, whatever is found
  std::function<void(int node)> forget;          ///< it will be made anew
  std::function<void(int node, int made)> bind;  ///< it is that; -1: nothing any more
  std::shared_ptr<std::shared_ptr<ThreadPool>> pool = std::make_shared<std::shared_ptr<ThreadPool>>();  ///< of Ifs
  bool drop = false;           ///< there are only inputs with a value: constants of past iterations are of no use
  int depth = 0;               ///< of the Loops that are being made
  std::int64_t looked_at = 0;  ///< nodes of the Graph, for what is in a body
  std::int64_t made = 0;       ///< nodes, in all iterations of all Loops
  std::map<int, std::vector<int>> outputs = {};  ///< of Loops, by their first operand
};

/// The type in which values go in and out of what the host does: f32 for those of 16 bits.
inline DType on_host(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

/// A body in a Graph of its own, whose inputs are what it reads of its surroundings.
struct Alone {
  struct Outer {
    std::string name;
    Tensor value;      // undefined where a run computes it
    int operand = -1;  // then
    int axis = -1;     // the last one that has a count, which operand `count` says
    int count = -1;
  };

  Graph graph;
  std::vector<Outer> outer;
};

/// Takes a body out of its Graph.
class Body {
 public:
  /// `op`: whose body it is, for messages. `operands`: what it reads, as nodes of the Network, which are added.
  Body(std::string_view op, const std::vector<Graph::Node>& nodes, Network& network, LoopNodes& by,
       std::vector<int>& operands)
      : alone(std::make_shared<Alone>()), op_(op), nodes_(nodes), network_(network), by_(by), operands_(operands) {}

  /// A node of the Graph, after those of the body that it reads.
  void take(int node);
  /// Another node, which reads these of the Graph: of the body, or else made outside of it.
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
  std::map<int, Value> values_;  // of the body's Graph, by node of the other
};

/// A Loop's outputs where its trip count is made of counts, so that a run says it. `body`: what depends on the values
/// of its body. Throws Error where its outputs have not as many rows in each iteration.
std::vector<int> run_loop(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> body,
                          std::size_t outputs, Network& network, LoopNodes& by);

/// One output of a Loop, with which all are made. Throws Error if it has too many iterations; UnboundInputs where they
/// depend on inputs.
int loop_output(const std::vector<Graph::Node>& nodes, std::size_t loop, Network& network, LoopNodes& by);

/// Whether an If is one that each run decides.
bool run_decides(const Graph::Node& node, const Network& network, const LoopNodes& by);

/// What both branches of such an If read, and is to be made before it, whatever the condition is.
std::vector<int> read_by_both(const std::vector<Graph::Node>& nodes, std::size_t choice, const LoopNodes& by);

/// What such an If becomes, and with it those beside it that have its condition: of each branch a Plan, of which a run
/// does one. -1: it reads values with counts, and is to be chosen by its elements, of branches that are both computed.
/// Throws Error where branches do not fit: UnboundInputs, if with some inputs bound one of them may do by itself.
int branch_output(const std::vector<Graph::Node>& nodes, std::size_t choice, Network& network, LoopNodes& by,
                  const CompileOptions& options);

}  // namespace lamina::detail
