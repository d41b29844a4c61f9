#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lamina/files/weights.h"
#include "lamina/module/module.h"
#include "lamina/plan/plan.h"

namespace lamina {

/// The output of one node of one Graph. One that you make yourself, `Value{node}`, is a node of whichever Graph gets
/// it.
struct Value {
  int node = -1;
  std::uint64_t graph = 0;  ///< the one that made it, by a number of its own; or 0
};

/// A network: a list of named nodes. Each node applies a module to the outputs of earlier nodes. A node's name is the
/// prefix of its parameters in state dicts: node "features.0" owns "features.0.weight" and "features.0.bias".
///
/// Building and loading change a Graph. After that, threads may share a `const Graph`.
class LAMINA_API Graph {
 public:
  struct Node {
    std::string name;
    std::shared_ptr<Module> module;  ///< null for an input
    std::vector<int> inputs;         ///< indices of earlier nodes; -1: an optional operand that is left out
    /// The shape of the output. The batch may be `lamina::batch`, and an extent of an input `lamina::open`. It is empty
    /// for an Op and for the nodes that depend on one: their shapes are known only after compiling.
    std::optional<Shape> shape;
    DType dtype = DType::f32;  ///< for an input: its type

    /// Whether this is an optional input: a constant with `Constant::input`.
    bool is_optional() const;
  };

  Graph();
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  /// Adds an input. Throws Error if the name is taken.
  Value input(std::string name, Shape shape, DType dtype = DType::f32);

  /// Adds a node. Value{} as an input leaves out an optional operand. Throws Error, naming the node, if the name is
  /// taken or the inputs do not fit the module.
  Value add(std::string name, std::shared_ptr<Module> module, std::span<const Value> inputs);
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(std::string name, M module, Value input) {
    return add(std::move(name), std::make_shared<M>(std::move(module)), {&input, 1});
  }
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(std::string name, M module, std::initializer_list<Value> inputs) {
    return add(std::move(name), std::make_shared<M>(std::move(module)), {inputs.begin(), inputs.size()});
  }
  /// Adds a node without a name of yours. Its name is its operation and its index, e.g. "relu_2".
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(M module, Value input) {
    std::string name = std::string(module.op()) + '_' + std::to_string(nodes_.size());
    return add(std::move(name), std::move(module), input);
  }

  /// Makes a value an output. The order of these calls is the order of the outputs.
  void output(Value value);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  /// Their names, in the same order.
  std::vector<std::string> input_names() const { return names_of(inputs_); }
  std::vector<std::string> output_names() const { return names_of(outputs_); }
  /// The optional inputs: constants of the graph for which a caller may give another value (`Constant::offer`). In an
  /// .onnx file they are the inputs with an initializer. `CompileOptions::constants` gives one another value;
  /// `CompileOptions::input_shapes` makes one an input of the Plan, after the graph's own inputs.
  std::vector<int> optional_inputs() const;
  /// The node with that name, or null.
  const Node* find(std::string_view name) const;

  /// A number that grows with every change. A Plan that was compiled before a change belongs to another network.
  std::uint64_t changes() const { return changes_; }

  /// Sets every parameter from the tensor with its name; f32 tensors are not copied. Returns the names of the tensors
  /// that no node uses, except `num_batches_tracked`. If all names of the file have a prefix "module.", "_orig_mod." or
  /// "model." and the graph's names do not, the prefix is ignored. Throws one Error that lists all missing and
  /// mis-shaped tensors, with the nearest names for the first ones; the graph is then unchanged.
  std::vector<std::string> load(const Weights& weights);

  /// All parameters, by their state-dict names. Throws Error if one was never set.
  Weights state_dict() const;

  /// Loads the graph of a self-describing model file, with its weights. Throws Error if the file or its graph is
  /// malformed.
  static Graph load(const std::string& path);
  /// Writes a self-describing model file with weights and graph. An existing file is replaced only on success.
  void save(const std::string& path) const;

  /// A table of the nodes for a batch of n: name, operation, output shape, parameters, FLOPs, activation bytes, and the
  /// totals.
  std::string summary(std::int64_t n = 1) const;
  std::string summary(const CompileOptions& options) const;

  /// Compiles the graph for one device, batch and precision: decides shapes, fusion, memory and kernels. Throws Error
  /// if this is not possible. It throws UnboundInputs, an Error, if it first needs the values of some inputs.
  Plan compile(const CompileOptions& options = {}) const&;
  /// The same for a graph that you no longer need: `std::move(graph).compile()`. Each weight that nobody else uses is
  /// freed when it is packed, so the weights are not in memory twice. Weights that the Plan uses unpacked then count as
  /// the Plan's (`Plan::memory`). The graph is gone even if this throws.
  Plan compile(const CompileOptions& options = {}) &&;

  /// The exact number of bytes that a Plan with these options will hold. Nothing is allocated on a GPU to find it.
  /// Weights that other Plans already have are counted in full, and in `shared` too: the new Plan takes
  /// total() - shared more. Throws Error as `compile` does.
  PlanMemory plan_memory(const CompileOptions& options = {}) const;
  /// The text that `Plan::summary` would give, found in the same way. With `CompileOptions::description` it also works
  /// for a device that is not there. Throws Error as `compile` does.
  std::string plan_summary(const CompileOptions& options = {}) const;

  /// The part of this graph that computes node `name`; this node is its only output. Modules are shared, not copied.
  /// Throws Error if there is no such node.
  Graph until(std::string_view name) const;

  /// The output shape of every node for a batch of n, in the order of `nodes()`. Throws Error if the batch alone does
  /// not determine the shapes.
  std::vector<Shape> shapes(std::int64_t n) const;

 private:
  int check(Value value) const;
  std::vector<std::string> names_of(std::span<const int> nodes) const;
  Value append(Node node);

  std::vector<Node> nodes_;
  std::map<std::string, int, std::less<>> index_;  // by name; no hash table: a file chooses the names
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::uint64_t changes_ = 0;
  std::uint64_t id_;  // of this graph, wherever it is moved
};

namespace detail {

/// What `Graph::load` passes over in front of every name; empty where it is nothing.
LAMINA_API std::string foreign_prefix(const Graph& graph, const Weights& weights);

}  // namespace detail
}  // namespace lamina
