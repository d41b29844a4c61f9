// From a Graph to a Network: shapes, types and constants become known, ops become modules.

#include "lamina/graph/resolve.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "lamina/base/names.h"
#include "lamina/graph/loops.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

constexpr int none = -1;

class Resolver {
 public:
  Resolver(const Graph& graph, const CompileOptions& options, const Release& release)
      : graph_(graph), nodes_(graph.nodes()), options_(options), release_(release) {
    result_.node.assign(nodes_.size(), none);
    result_.end.assign(nodes_.size(), 0);
    again_.assign(nodes_.size(), false);
    const auto is_known = [&](const Graph::Node& node) {
      return node.module == nullptr ? options.constants.contains(node.name)
                                    : !node.inputs.empty() || is_loop_value(node);
    };
    loop_nodes_.drop = !options.keep_all && std::ranges::all_of(nodes_, is_known);
    loop_nodes_.make = [this](int node) {
      std::vector<std::size_t> waiting;
      need(node, waiting);
      visit(std::move(waiting));
      return result_.node[static_cast<std::size_t>(node)];
    };
    loop_nodes_.find = [this](int node) { return result_.node[static_cast<std::size_t>(node)]; };
    loop_nodes_.needed = [this](int node) { return needed_[static_cast<std::size_t>(node)]; };
    loop_nodes_.bind = [this](int node, int made) {
      const auto i = static_cast<std::size_t>(node);
      result_.node[i] = made, needed_[i] = made != none;
    };
    loop_nodes_.forget = [this](int node) {
      loop_nodes_.bind(node, none);
      again_[static_cast<std::size_t>(node)] = true;
      loop_nodes_.outputs.erase(nodes_[static_cast<std::size_t>(node)].inputs[0]);
    };
  }

  Resolved resolve() {
    if (options_.batch < 1) fail("batch: expected 1 or more, got ", options_.batch);
    result_.network.add_room_of(options_.batch);
    check_names();
    choose_outputs();
    std::vector<int> inputs = graph_.inputs();
    std::ranges::copy(graph_.optional_inputs(), std::back_inserter(inputs));
    for (const int input : inputs) {
      const Graph::Node& node = nodes_[static_cast<std::size_t>(input)];
      const bool bound = options_.constants.contains(node.name), given = options_.input_shapes.contains(node.name);
      if (node.module != nullptr && !bound && !given) continue;
      const int added = result_.node[static_cast<std::size_t>(input)] = capped(node, add_input(node));
      if (bound) continue;
      result_.inputs.push_back(added);
      const Shape& shape = given ? options_.input_shapes.find(node.name)->second : *node.shape;
      result_.input_batched.push_back(shape.rank() > 0 && shape[0] == batch);
    }
    check_batch();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (needed_[i]) {
        visit({i});
      } else {
        result_.end[i] = result_.network.size();
        if (release_ && !possible_[i]) release_(i);
      }
    }
    for (const int output : outputs_) {
      result_.outputs.push_back(result_.node[static_cast<std::size_t>(output)]);
      if (result_.outputs.back() < 0)
        fail(nodes_[static_cast<std::size_t>(output)].name, ": expected a tensor as output, it is a sequence");
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      result_.output_counts.push_back(result_.network[result_.outputs[i]].counts);
      for (int& count : result_.output_counts.back()) {
        if (count >= 0) result_.counts.push_back(std::exchange(count, static_cast<int>(result_.counts.size())));
      }
    }
    return std::move(result_);
  }

 private:
  /// Makes the waiting nodes, the last one first. Before an If it makes the branch that the If takes, if no other node
  /// needed that branch.
  void visit(std::vector<std::size_t> waiting) {
    while (!waiting.empty()) {
      heed_stop(options_.stop, "compile");
      const std::size_t i = waiting.back();
      const Graph::Node& node = nodes_[i];
      if (const int branch = branch_taken(node); branch >= 0 && !needed_[static_cast<std::size_t>(branch)]) {
        need(branch, waiting);
        continue;
      }
      if (run_decides(node, result_.network, loop_nodes_)) {
        for (const int both : read_by_both(nodes_, i, loop_nodes_)) need(both, waiting);
        if (waiting.back() != i) continue;
      }
      waiting.pop_back();
      const int before = result_.network.size();
      const bool given = result_.node[i] >= 0;  // an input of the graph, or an optional input, is there already
      if (!given) result_.node[i] = at_node(node.name, [&] { return capped(node, make(i)); });
      result_.end[i] = result_.network.size();
      if (again_[i]) continue;
      if (release_) release_(i);
      if (!options_.keep_all) drop_operands(i, before);
    }
  }

  /// Adds a node, and the nodes that it needs, to the waiting ones, unless they were needed before.
  void need(int node, std::vector<std::size_t>& waiting) {
    const auto below = std::ssize(waiting);
    for (std::vector<int> pending = {node}; !pending.empty();) {
      const auto at = static_cast<std::size_t>(pending.back());
      pending.pop_back();
      if (needed_[at]) continue;
      needed_[at] = true;
      waiting.push_back(at);
      for (const int input : certain_inputs(nodes_[at])) {
        if (input >= 0) pending.push_back(input);
      }
    }
    std::sort(waiting.begin() + below, waiting.end(), std::greater<>());
  }

  /// The node of the network, limited to the capacity that the options give the node of the graph.
  int capped(const Graph::Node& node, int made) {
    const auto asked = options_.capacity.find(node.name);
    if (asked == options_.capacity.end() || made < 0) return made;
    return Expansion(result_.network, Op("Identity"), node.name, {}).capped(made, asked->second);
  }

  int make(std::size_t i) {
    if (is_loop(nodes_[i])) return loop_output(nodes_, i, result_.network, loop_nodes_);
    const bool decides = run_decides(nodes_[i], result_.network, loop_nodes_);
    const int chosen = decides ? branch_output(nodes_, i, result_.network, loop_nodes_, options_) : none;
    return chosen >= 0 ? chosen : add(nodes_[i]);
  }

  /// The branch of an If that is to be made next. With a known condition, the one that it takes; if the condition is
  /// made of counts, so that a run decides, one branch and then the other. -1 for other nodes.
  int branch_taken(const Graph::Node& node) const {
    if (!is_choice(node) || std::ranges::min(node.inputs) < 0) return none;
    const int id = result_.node[static_cast<std::size_t>(node.inputs[0])];
    if (id < 0) return none;  // a sequence
    const Network::Node& made = result_.network[id];
    if (made.range.most.defined()) return node.inputs[needed_[static_cast<std::size_t>(node.inputs[1])] ? 2 : 1];
    if (!made.constant.defined() || made.constant.numel() != 1) return none;
    return node.inputs[to_numbers(made.constant)[0] != 0 ? 1 : 2];
  }

  /// Names that options speak of must be there.
  void check_names() {
    const auto require_input = [&](const std::string& name) {
      const std::vector<std::string> names = node_names(graph_, true);
      if (std::ranges::find(names, name) != names.end()) return;
      fail("compile: the graph has no input ", quote(name), nearest_text(name, names));
    };
    for (const auto& [name, shape] : options_.input_shapes) require_input(name);
    for (const auto& [name, value] : options_.constants) require_input(name);
    for (const auto& [name, most] : options_.capacity) {
      if (graph_.find(name) == nullptr)
        fail("CompileOptions::capacity: the graph has no node ", quote(name), nearest_text(name, node_names(graph_)));
      if (most < 1) fail("CompileOptions::capacity of ", quote(name), ": expected 1 or more, got ", most);
    }
  }

  void choose_outputs() {
    outputs_ = graph_.outputs();
    if (!options_.outputs.empty()) outputs_.clear();
    for (const std::string& name : options_.outputs) {
      const Graph::Node* node = graph_.find(name);
      if (node == nullptr)
        fail("compile: there is no node ", quote(name), " to be an output", nearest_text(name, node_names(graph_)));
      outputs_.push_back(static_cast<int>(node - nodes_.data()));
    }
    for (const int output : outputs_) result_.output_names.push_back(nodes_[static_cast<std::size_t>(output)].name);
    if (std::set(outputs_.begin(), outputs_.end()).size() != outputs_.size())
      fail("compile: expected each output once");
    needed_.assign(nodes_.size(), false);
    possible_.assign(nodes_.size(), false);
    for (const int output : outputs_) possible_[static_cast<std::size_t>(output)] = true;
    for (const int output : outputs_) needed_[static_cast<std::size_t>(output)] = true;
    uses_.assign(nodes_.size(), 0);
    const bool loops = std::ranges::any_of(nodes_, is_loop);  // bodies are nothing by themselves
    for (const int output : outputs_) ++uses_[static_cast<std::size_t>(output)];
    const auto mark = [](std::span<const int> inputs, std::vector<bool>& marks) {
      for (const int input : inputs) {
        if (input >= 0) marks[static_cast<std::size_t>(input)] = true;
      }
    };
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (possible_[i]) mark(nodes_[i].inputs, possible_);
      if (options_.keep_all && !possible_[i] && !loops) needed_[i] = true;
      if (needed_[i]) mark(certain_inputs(nodes_[i]), needed_);
      for (const int input : nodes_[i].inputs) {
        if (possible_[i] && input >= 0) ++uses_[static_cast<std::size_t>(input)];
      }
    }
  }

  /// Drops constants of the network that no other node of the graph than i still has to read, and that the nodes made
  /// of it, from `before` on, do not read either. So weights that were transposed are not in memory twice.
  void drop_operands(std::size_t i, int before) {
    read_.resize(static_cast<std::size_t>(result_.network.size()), false);
    for (int added = before; added < result_.network.size(); ++added) {
      for (const int input : result_.network[added].inputs) read_[static_cast<std::size_t>(input)] = true;
    }
    // If it became a node that was there before, that one stays: from now on others may read it as this one.
    const int made = result_.node[i];
    if (made >= 0 && (made < before || is_loop(nodes_[i]))) read_[static_cast<std::size_t>(made)] = true;
    for (const int input : nodes_[i].inputs) {
      if (input < 0 || --uses_[static_cast<std::size_t>(input)] > 0) continue;
      const int node = result_.node[static_cast<std::size_t>(input)];
      if (node >= 0 && !read_[static_cast<std::size_t>(node)]) result_.network.drop_constant(node);
    }
  }

  int add_input(const Graph::Node& node) {
    const Shape& declared = *node.shape;
    if (const auto bound = options_.constants.find(node.name); bound != options_.constants.end()) {
      const Tensor& value = bound->second;
      if (!value.defined() || value.dtype() != node.dtype || !value.device().is_cpu() ||
          !declared.admits(value.shape())) {
        fail(node.name, ": expected a constant of ", node.dtype, ' ', declared, " on cpu, got ", value.description());
      }
      return result_.network.add_constant(node.name, value);
    }
    Shape shape = declared;
    if (const auto given = options_.input_shapes.find(node.name); given != options_.input_shapes.end()) {
      if (!declared.admits(given->second))
        fail(node.name, ": expected a shape that fits ", declared, ", got ", given->second);
      shape = given->second;
    }
    shape = shape.with_batch(options_.batch);
    if (!shape.is_known()) fail(node.name, ": its shape ", declared, " is open; CompileOptions::input_shapes gives it");
    return result_.network.add_input(node.name, shape, node.dtype);
  }

  /// A network with a fixed batch can be compiled for that batch alone, or without asking for one.
  void check_batch() const {
    if (options_.batch == 1 || !options_.input_shapes.empty()) return;
    for (const int input : graph_.inputs()) {
      const Shape& declared = *nodes_[static_cast<std::size_t>(input)].shape;
      if (declared.has_batch() || declared.rank() == 0 || declared[0] == options_.batch) return;
    }
    if (!graph_.inputs().empty())
      fail("compile: the network's shapes are fixed; a batch of ", options_.batch, " is not theirs");
  }

  int add(const Graph::Node& node) {
    std::vector<int> inputs;
    for (const int input : node.inputs)
      inputs.push_back(input < 0 ? none : result_.node[static_cast<std::size_t>(input)]);
    if (const auto* constant = dynamic_cast<const Constant*>(node.module.get())) {
      if (!constant->value().defined()) fail("was never set; load weights first");
      return result_.network.add_constant(node.name, constant->value());
    }
    const auto* op = dynamic_cast<const Op*>(node.module.get());
    if (op == nullptr) return result_.network.add(node.name, node.module, std::move(inputs));
    if (!knows_counts(op->op())) refuse_counts(result_.network, op->op(), inputs);
    const int before = result_.network.size();
    Expansion expansion(result_.network, *op, node.name, std::move(inputs));
    const int result = find_op(op->op())->expand(expansion);
    expansion.attributes().finish();
    if (result >= before) result_.network.rename(result, node.name);
    return result;
  }

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  const CompileOptions& options_;
  const Release& release_;
  std::vector<int> outputs_;    // of the graph
  std::vector<bool> needed_;    // by node of the graph
  std::vector<bool> possible_;  // by node of the graph: needed if all branches were taken
  std::vector<int> uses_;       // by node of the graph: how many possible nodes still have to read it, and the caller
  std::vector<bool> read_;      // by node of the network: its nodes read it
  std::vector<bool> again_;     // by node of the graph: a Loop makes it again and again
  LoopNodes loop_nodes_;
  Resolved result_;
};

}  // namespace

Resolved resolve(const Graph& graph, const CompileOptions& options, const Release& release) {
  return Resolver(graph, options, release).resolve();
}

}  // namespace lamina::detail
