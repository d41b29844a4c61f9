// Graph::summary: what people read to see what a network is.

#include <algorithm>

#include "lamina/base/text_table.h"
#include "lamina/graph/graph.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/op.h"

namespace lamina {
namespace {

/// Multiplications and additions of a network's nodes from `first` to before `last`.
double flops_of(const detail::Network& network, int first, int last) {
  double flops = 0;
  for (int i = first; i < last; ++i) {
    const detail::Network::Node& node = network[i];
    if (node.module == nullptr) continue;
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(network[input].shape);
    flops += node.module->flops(inputs);
  }
  return flops;
}

}  // namespace

std::string Graph::summary(std::int64_t n) const { return summary(CompileOptions{.batch = n}); }

std::string Graph::summary(const CompileOptions& given) const {
  CompileOptions options = given;
  options.keep_all = true;
  const detail::Resolved resolved = detail::resolve(*this, options);
  detail::TextTable table({"name", "op", "output", "parameters", "MFLOP", "activation"});
  std::int64_t parameters = 0;
  double flops = 0;
  std::size_t bytes = 0;
  int first = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (resolved.node[i] < 0) continue;  // part of a branch that is not taken
    const detail::Network::Node& result = resolved.network[resolved.node[i]];
    const int last = std::max(first, resolved.end[i]);
    const double node_flops = flops_of(resolved.network, first, last);
    first = last;
    if (dynamic_cast<const Constant*>(node.module.get()) != nullptr) continue;  // counted where it is read
    const bool known = result.constant.defined();
    const std::size_t node_bytes = known ? 0 : detail::bytes_of(result.shape, {.dtype = result.dtype});
    bytes += node_bytes;
    const std::string activation = known ? "" : detail::format_bytes(node_bytes);
    if (node.module == nullptr) {
      table.add({node.name, "input", result.shape.to_string(), "", "", activation});
      continue;
    }
    std::int64_t node_parameters = 0;
    for (const auto& parameter : node.module->parameters()) node_parameters += parameter.shape.numel();
    for (const int input : node.inputs) {
      const Node* operand = input < 0 ? nullptr : &nodes_[static_cast<std::size_t>(input)];
      if (operand == nullptr || dynamic_cast<const Constant*>(operand->module.get()) == nullptr) continue;
      const auto& value = operand->module->parameters()[0];
      if (value.dtype == DType::f32) node_parameters += value.shape.numel();
    }
    parameters += node_parameters;
    flops += node_flops;
    table.add({node.name, std::string(node.module->op()), result.shape.to_string(),
               node_parameters > 0 ? detail::format_count(node_parameters) : "",
               node_flops > 0 ? detail::format_fixed(node_flops * 1e-6, 1) : "", activation});
  }
  table.add_total({"total", "", "", detail::format_count(parameters), detail::format_fixed(flops * 1e-6, 1),
                   detail::format_bytes(bytes)});
  return table.to_string();
}

}  // namespace lamina
