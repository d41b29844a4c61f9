// Folding: which nodes become part of the operation before them.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/compile/program.h"

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
    Operation longer = op;
    try {
      longer.module = op.module->absorb(*node.module);
    } catch (const Error& error) {
      fail(node.name, ": ", error.what());
    }
    if (longer.module == nullptr) return false;
    Program::Value& result = program_.value(op.output);
    const Shape shape = std::exchange(result.shape, shapes_[i]);
    longer.view = op.view && longer.module->is_view({&program_.value(op.inputs[0]).shape, 1});
    if (!longer.view && !runs(longer)) {
      result.shape = shape;
      return false;
    }
    if (op.view) {
      longer.name = node.name;  // what follows a view takes it in, and the operation is its own from then on
    } else {
      longer.fused += (op.fused.empty() ? "" : ", ") + node.name;
      longer.folded |= !shares_parameters(*op.module, *longer.module);
    }
    op = std::move(longer);
    value_of_.push_back(op.output);
    producer_.push_back(producer_[source]);
    return true;
  }

  /// Whether there is a kernel for the operation in some formats.
  bool runs(const Operation& op) const {
    PreparedViews views(program_, op, options_);
    for (const Format input : formats(views.inputs[0].shape, options_)) {
      for (const Format output : formats(views.output.shape, options_)) {
        if (op.module->takes(views.with(input, output))) return true;
      }
    }
    return false;
  }

  static bool shares_parameters(const Module& a, const Module& b) {
    return std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin(), b.parameters().end(),
                      [](const auto& x, const auto& y) { return x.value.raw() == y.value.raw(); });
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
