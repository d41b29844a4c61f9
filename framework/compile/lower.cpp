// From a Network to a Program: a value and an operation for each node that somebody needs.

#include <algorithm>
#include <iterator>

#include "lamina/compile/program.h"

namespace lamina::detail {
namespace {

/// By node: whether the outputs need it, or the caller gives it.
std::vector<bool> needed(const Resolved& resolved, bool all) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<bool> result(index(resolved.network.size()), all);
  for (const int output : resolved.outputs) result[index(output)] = true;
  for (const int count : resolved.counts) result[index(count)] = true;
  for (int i = resolved.network.size(); i-- > 0;) {
    if (!result[index(i)]) continue;
    for (const int input : resolved.network[i].inputs) result[index(input)] = true;
  }
  for (const int input : resolved.inputs) result[index(input)] = true;
  return result;
}

}  // namespace

Program lower(const Graph& graph, const Resolved& resolved, const CompileOptions& options) {
  Program program;
  std::vector<int> value_of;  // by node
  const auto values_of = [&](const std::vector<int>& nodes) {
    std::vector<int> values;
    for (const int node : nodes) values.push_back(value_of[static_cast<std::size_t>(node)]);
    return values;
  };
  const std::vector<bool> is_needed = needed(resolved, options.keep_all);
  for (int i = 0; i < resolved.network.size(); ++i) {
    const Network::Node& node = resolved.network[i];
    const bool skipped = !is_needed[static_cast<std::size_t>(i)];
    value_of.push_back(skipped ? -1 : static_cast<int>(program.values.size()));
    if (skipped) continue;
    program.values.push_back({node.name, node.shape, {.dtype = node.dtype}, node.constant});
    // Sizes are made of these numbers: 16 bits round 2049.
    program.values.back().keeps_f32 = node.dtype == DType::f32 && node.range.most.defined();
    if (node.module == nullptr) continue;
    Program::Operation op;
    op.name = node.name;
    op.module = node.module;
    op.inputs = values_of(node.inputs);
    op.output = value_of.back();
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(resolved.network[input].shape);
    op.view = node.module->is_view(inputs);
    program.operations.push_back(std::move(op));
  }
  program.inputs = values_of(resolved.inputs);
  program.outputs = values_of(resolved.outputs);
  std::ranges::copy(values_of(resolved.counts), std::back_inserter(program.outputs));
  program.output_counts = resolved.output_counts;
  program.output_names = resolved.output_names;
  program.input_batched = resolved.input_batched;
  program.output_batched = resolved.output_batched;
  if (options.keep_all) {
    for (std::size_t i = 0; i < resolved.node.size(); ++i) {
      if (resolved.node[i] >= 0)
        program.kept.emplace_back(graph.nodes()[i].name, value_of[static_cast<std::size_t>(resolved.node[i])]);
    }
  }
  return program;
}

}  // namespace lamina::detail
