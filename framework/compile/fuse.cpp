// Folding: which nodes become part of the operation before them.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/compile/program.h"

namespace lamina::detail {
namespace {

constexpr int none = -1;

class Fuser {
 public:
  Fuser(const Resolved& resolved, const CompileOptions& options)
      : network_(resolved.network), options_(options), uses_(size(), 0), needed_(size(), options.keep_all) {
    for (const int output : resolved.outputs) {
      ++uses_[index(output)];  // by the caller
      needed_[index(output)] = true;
    }
    for (int i = network_.size(); i-- > 0;) {
      if (!needed_[index(i)]) continue;
      for (const int input : network_[i].inputs) {
        ++uses_[index(input)];
        needed_[index(input)] = true;
      }
    }
    for (const int input : resolved.inputs) needed_[index(input)] = true;
  }

  Program fuse(const Graph& graph, const Resolved& resolved) {
    for (int i = 0; i < network_.size(); ++i) {
      value_of_.push_back(none);
      producer_.push_back(none);
      if (!needed_[index(i)]) continue;
      if (network_[i].module == nullptr) {
        value_of_.back() = new_value(i);
      } else if (!options_.fuse || !fold(i)) {
        append(i);
      }
    }
    for (const int input : resolved.inputs) program_.inputs.push_back(value_of(input));
    for (const int output : resolved.outputs) program_.outputs.push_back(value_of(output));
    program_.output_names = resolved.output_names;
    program_.input_batched = resolved.input_batched;
    program_.output_batched = resolved.output_batched;
    if (options_.keep_all) {
      for (std::size_t i = 0; i < resolved.node.size(); ++i) {
        program_.kept.emplace_back(graph.nodes()[i].name, value_of(resolved.node[i]));
      }
    }
    return std::move(program_);
  }

 private:
  using Operation = Program::Operation;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::size_t size() const { return index(network_.size()); }
  int value_of(int node) const { return value_of_[index(node)]; }

  int new_value(int i) {
    const Network::Node& node = network_[i];
    program_.values.push_back({node.name, node.shape, {.dtype = node.dtype}, node.constant});
    return static_cast<int>(program_.values.size()) - 1;
  }

  void append(int i) {
    const Network::Node& node = network_[i];
    Operation op;
    op.name = node.name;
    op.module = node.module;
    std::vector<Shape> inputs;
    for (const int input : node.inputs) {
      op.inputs.push_back(value_of(input));
      inputs.push_back(network_[input].shape);
    }
    op.view = node.module->is_view(inputs);
    op.output = new_value(i);
    value_of_.back() = op.output;
    producer_.back() = static_cast<int>(program_.operations.size());
    program_.operations.push_back(std::move(op));
  }

  /// Makes node i part of the operation that computes its operand, if that can be and nobody else reads the operand.
  bool fold(int i) {
    const Network::Node& node = network_[i];
    if (node.inputs.size() != 1) return false;
    const std::size_t source = index(node.inputs[0]);
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
    const Shape shape = std::exchange(result.shape, node.shape);
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
    value_of_.back() = op.output;
    producer_.back() = producer_[source];
    return true;
  }

  /// Whether there is a kernel for the operation in some formats.
  bool runs(const Operation& op) const {
    PreparedViews views(program_, op, options_);
    for (const Format input : formats(program_.value(op.inputs[0]), options_)) {
      for (const Format output : formats(program_.value(op.output), options_)) {
        if (op.module->takes(views.with(input, output))) return true;
      }
    }
    return false;
  }

  static bool shares_parameters(const Module& a, const Module& b) {
    return std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin(), b.parameters().end(),
                      [](const auto& x, const auto& y) { return x.value.raw() == y.value.raw(); });
  }

  const Network& network_;
  const CompileOptions& options_;
  std::vector<int> uses_;  // by node, as all below: readers, the caller included
  std::vector<bool> needed_;
  std::vector<int> value_of_;
  std::vector<int> producer_;  // the operation, or none for an input
  Program program_;
};

}  // namespace

Program fuse(const Graph& graph, const CompileOptions& options) {
  Resolved resolved = resolve(graph, options);
  find_batch(graph, options, resolved);
  return Fuser(resolved, options).fuse(graph, resolved);
}

}  // namespace lamina::detail
