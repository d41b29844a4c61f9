// Graph::summary: what people read to see what a network is.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/text_table.h"
#include "lamina/graph/graph.h"

namespace lamina {

std::string Graph::summary(std::int64_t n) const {
  const std::vector<Shape> shape = shapes(n);
  detail::TextTable table({"name", "op", "output", "parameters", "MFLOP", "activation"});
  std::int64_t parameters = 0;
  double flops = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto node_bytes = static_cast<std::size_t>(shape[i].numel()) * sizeof(float);
    bytes += node_bytes;
    if (node.module == nullptr) {
      table.add({node.name, "input", shape[i].to_string(), "", "", detail::format_bytes(node_bytes)});
      continue;
    }
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(shape[static_cast<std::size_t>(input)]);
    std::int64_t node_parameters = 0;
    for (const auto& parameter : node.module->parameters()) node_parameters += parameter.shape.numel();
    const double node_flops = node.module->flops(inputs);
    parameters += node_parameters;
    flops += node_flops;
    table.add({node.name, std::string(node.module->op()), shape[i].to_string(),
               node_parameters > 0 ? detail::format_count(node_parameters) : "",
               node_flops > 0 ? detail::format_fixed(node_flops * 1e-6, 1) : "", detail::format_bytes(node_bytes)});
  }
  table.add_total({"total", "", "", detail::format_count(parameters), detail::format_fixed(flops * 1e-6, 1),
                   detail::format_bytes(bytes)});
  return table.to_string();
}

}  // namespace lamina
