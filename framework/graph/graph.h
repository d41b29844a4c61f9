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

/// The output of one node of one Graph.
struct Value {
  int node = -1;
};

/// A network: named nodes, each a module applied to the outputs of earlier nodes. A node's name is the prefix of its
/// parameters in state dicts: node "features.0" owns "features.0.weight" and "features.0.bias".
///
/// Building and loading change a Graph; afterwards a `const Graph` may be shared by threads.
class LAMINA_API Graph {
 public:
  struct Node {
    std::string name;
    std::shared_ptr<Module> module;  ///< null for an input
    std::vector<int> inputs;         ///< indices of earlier nodes; -1: an optional operand that is left out
    /// Of the output; the batch may be `lamina::batch`, and an extent of an input `lamina::open`. Nothing where only
    /// compiling tells: of an Op, and of what depends on one.
    std::optional<Shape> shape;
    DType dtype = DType::f32;  ///< of an input

    /// Whether it is an input that need not be given: a constant with `Constant::input`.
    bool is_optional() const;
  };

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  /// Adds an input. Throws Error if the name is taken.
  Value input(std::string name, Shape shape, DType dtype = DType::f32);

  /// Adds a node. A Value{} among the inputs leaves out an optional operand. Throws Error, naming the node, if the name
  /// is taken or the inputs do not fit the module.
  Value add(std::string name, std::shared_ptr<Module> module, std::span<const Value> inputs);
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(std::string name, M module, Value input) {
    return add(std::move(name), std::make_shared<M>(std::move(module)), {&input, 1});
  }
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(std::string name, M module, std::initializer_list<Value> inputs) {
    return add(std::move(name), std::make_shared<M>(std::move(module)), {inputs.begin(), inputs.size()});
  }
  /// Adds a node named after its operation and its place among the nodes, e.g. "relu_2".
  template <class M>
  requires std::is_base_of_v<Module, M> Value add(M module, Value input) {
    std::string name = std::string(module.op()) + '_' + std::to_string(nodes_.size());
    return add(std::move(name), std::move(module), input);
  }

  /// Marks a value as an output; outputs are returned in the order of these calls.
  void output(Value value);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  /// The inputs that need not be given, which are constants of the graph (`Constant::offer`): an .onnx file's that have
  /// an initializer. `CompileOptions::constants` gives one another value, `CompileOptions::input_shapes` makes one an
  /// input of the Plan, behind the graph's own.
  std::vector<int> optional_inputs() const;
  /// The node of that name, or null.
  const Node* find(std::string_view name) const;

  /// Grows with every change: what was compiled before is of another network.
  std::uint64_t changes() const { return changes_; }

  /// Sets every parameter from the tensor of its name, without copying f32 ones. Returns the names of the tensors
  /// that no node uses (`num_batches_tracked` aside). A prefix "module.", "_orig_mod." or "model." that all names of
  /// the file have and the graph's have not is passed over. Throws one Error that lists every missing and mis-shaped
  /// tensor, with the nearest names there are for the first of them; the graph is then unchanged.
  std::vector<std::string> load(const Weights& weights);

  /// Every parameter under its state-dict name. Throws Error if one was never set.
  Weights state_dict() const;

  /// The graph of a self-describing model file, weights included. Throws Error if the file or its graph is malformed.
  static Graph load(const std::string& path);
  /// Writes a self-describing model file: weights and graph. An existing file is replaced only on success.
  void save(const std::string& path) const;

  /// A table of the nodes: name, operation, output shape, parameters, FLOPs, activation bytes; and the totals, when the
  /// batch is n.
  std::string summary(std::int64_t n = 1) const;
  std::string summary(const CompileOptions& options) const;

  /// Decides shapes, fusion, memory and kernels for one device, batch and precision. Throws Error if that cannot be;
  /// UnboundInputs, which is one, if values of inputs must be known for it.
  Plan compile(const CompileOptions& options = {}) const&;
  /// The same of a graph that is not wanted afterwards, `std::move(graph).compile()`: its weights go one by one as they
  /// are packed, where nobody else has them, so that they are not in memory twice. What the Plan uses where it lies
  /// counts as its own then (`Plan::memory`). The graph is gone also if this throws.
  Plan compile(const CompileOptions& options = {}) &&;

  /// The bytes that `compile` with these options will hold, exactly, found out without taking any on a GPU. Weights
  /// that other Plans have already are counted in full, and are `shared` too: it will take total() - shared more.
  /// Throws Error as `compile` does.
  PlanMemory plan_memory(const CompileOptions& options = {}) const;
  /// What `Plan::summary` would say, found out likewise; with `CompileOptions::description` also of a device that is
  /// not there. Throws Error as `compile` does.
  std::string plan_summary(const CompileOptions& options = {}) const;

  /// The part of this graph that computes node `name`, which becomes the only output. Modules are shared, not copied.
  /// Throws Error if there is no such node.
  Graph until(std::string_view name) const;

  /// The output shape of every node when the batch is n, in the order of `nodes()`. Throws Error if that alone does not
  /// tell.
  std::vector<Shape> shapes(std::int64_t n) const;

 private:
  int check(Value value) const;
  Value append(Node node);

  std::vector<Node> nodes_;
  std::map<std::string, int, std::less<>> index_;  // by name; no hash table: a file chooses the names
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::uint64_t changes_ = 0;
};

namespace detail {

/// What `Graph::load` passes over in front of every name; empty where it is nothing.
LAMINA_API std::string foreign_prefix(const Graph& graph, const Weights& weights);

}  // namespace detail
}  // namespace lamina
