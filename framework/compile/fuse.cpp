// Folding: which nodes become part of the operation before them.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/compile/program.h"
#include "lamina/layers/pool2d.h"

namespace lamina::detail {
namespace {

constexpr int none = -1;

class Fuser {
 public:
  Fuser(const Graph& graph, const CompileOptions& options)
      : nodes_(graph.nodes()), options_(options), shapes_(graph.shapes(options.batch)), uses_(nodes_.size(), 0) {
    for (const Graph::Node& node : nodes_) {
      for (const int input : node.inputs) ++uses_[static_cast<std::size_t>(input)];
    }
    for (const int output : graph.outputs()) ++uses_[static_cast<std::size_t>(output)];  // by the caller
  }

  Program fuse(const Graph& graph) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Graph::Node& node = nodes_[i];
      if (node.module == nullptr) {
        value_of_.push_back(new_value(i));
        producer_.push_back(none);
      } else if (!options_.fuse || !fold(i)) {
        append(i);
      }
    }
    for (const int input : graph.inputs()) program_.inputs.push_back(value_of(input));
    for (const int output : graph.outputs()) program_.outputs.push_back(value_of(output));
    if (options_.keep_all) {
      for (std::size_t i = 0; i < nodes_.size(); ++i) program_.kept.emplace_back(nodes_[i].name, value_of_[i]);
    }
    return std::move(program_);
  }

 private:
  using Operation = Program::Operation;

  int value_of(int node) const { return value_of_[static_cast<std::size_t>(node)]; }

  int new_value(std::size_t node) {
    program_.values.push_back({nodes_[node].name, shapes_[node], {}});
    return static_cast<int>(program_.values.size()) - 1;
  }

  void append(std::size_t i) {
    const Graph::Node& node = nodes_[i];
    Operation op;
    op.name = node.name;
    op.module = node.module;
    std::vector<Shape> inputs;
    for (const int input : node.inputs) {
      op.inputs.push_back(value_of(input));
      inputs.push_back(shapes_[static_cast<std::size_t>(input)]);
    }
    op.view = node.module->is_view(inputs);
    op.output = new_value(i);
    value_of_.push_back(op.output);
    producer_.push_back(static_cast<int>(program_.operations.size()));
    program_.operations.push_back(std::move(op));
  }

  /// Makes node i part of the operation that computes its operand, if that can be and nobody else reads the operand.
  bool fold(std::size_t i) {
    const Graph::Node& node = nodes_[i];
    if (node.inputs.size() != 1) return false;
    const auto source = static_cast<std::size_t>(node.inputs[0]);
    if (uses_[source] != 1 || producer_[source] == none) return false;
    Operation& op = program_.operations[static_cast<std::size_t>(producer_[source])];
    if (op.pool) return false;
    const bool folded =
        node.module->op() == "relu" ? fold_relu(op, node) : fold_pool(op, node, source) || fold_module(op, node);
    if (!folded) return false;
    program_.value(op.output).shape = shapes_[i];
    value_of_.push_back(op.output);
    producer_.push_back(producer_[source]);
    return true;
  }

  static void list(Operation& op, const Graph::Node& node) { op.fused += (op.fused.empty() ? "" : ", ") + node.name; }

  static bool fold_relu(Operation& op, const Graph::Node& node) {
    if (op.relu || !op.module->fuses_relu()) return false;
    op.relu = true;
    list(op, node);
    return true;
  }

  /// A max pooling, if the operation can do it in some formats.
  bool fold_pool(Operation& op, const Graph::Node& node, std::size_t source) const {
    const auto* pool = dynamic_cast<const MaxPool2d*>(node.module.get());
    if (pool == nullptr || op.view) return false;
    std::vector<Shape> shapes;
    Preparation preparation = preparation_of(program_, op, options_, shapes);
    preparation.pool = pool->geometry(shapes_[source]);
    for (const Format input : formats(shapes[0], options_)) {
      for (const Format output : formats(shapes_[source], options_)) {
        preparation.input = input;
        preparation.output = output;
        if (!op.module->takes(preparation)) continue;
        op.pool = preparation.pool;
        list(op, node);
        return true;
      }
    }
    return false;
  }

  /// What follows a view takes it in, and the operation is its own from then on.
  bool fold_module(Operation& op, const Graph::Node& node) const {
    if (op.relu) return false;
    try {
      auto folded = op.module->followed_by(*node.module);
      if (folded == nullptr) return false;
      op.module = std::move(folded);
      if (op.view) {
        op.name = node.name;
        op.view = op.module->is_view({&program_.value(op.inputs[0]).shape, 1});
      } else {
        op.folded = true;
        list(op, node);
      }
      return true;
    } catch (const Error& error) {
      fail(node.name, ": ", error.what());
    }
  }

  const std::vector<Graph::Node>& nodes_;
  const CompileOptions& options_;
  std::vector<Shape> shapes_;  // by node, as all below
  std::vector<int> uses_;      // readers, the caller included
  std::vector<int> value_of_;
  std::vector<int> producer_;  // the operation, or none for an input
  Program program_;
};

}  // namespace

Program fuse(const Graph& graph, const CompileOptions& options) { return Fuser(graph, options).fuse(graph); }

}  // namespace lamina::detail
