// Graph::summary and Plan::summary: what people read to see what a network is and how it will run.

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "lamina/base/error.h"
#include "lamina/base/text_table.h"
#include "lamina/graph/graph.h"
#include "lamina/plan/plan_impl.h"

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

std::string Plan::summary() const {
  detail::TextTable table({"step", "fused", "output", "stored as", "MFLOP", "moves", "offset"});
  table.wrap({1});
  for (const Impl::Step& step : impl_->steps) {
    // The offset of the output's buffer in the arena; the caller's memory has none.
    std::string offset = "caller's";
    for (const Impl::Buffer& buffer : impl_->buffers) {
      for (const Impl::Use& use : buffer.uses) {
        if (use.slot >= 0 || &impl_->steps[use.step] != &step || !buffer.home.defined()) continue;
        const auto* first = static_cast<const std::byte*>(impl_->arena.raw());
        offset = std::to_string(static_cast<const std::byte*>(buffer.home.raw()) - first);
      }
    }
    table.add(
        {step.name, step.fused, step.output.shape().to_string(), detail::concat(step.output_format),
         step.flops > 0 ? detail::format_fixed(step.flops * 1e-6, 1) : "", detail::format_bytes(step.bytes), offset},
        step.op->description());
  }
  const PlanMemory memory = impl_->memory;
  std::ostringstream out;
  out << table.to_string() << "on " << impl_->options.device << ", " << name(impl_->options.precision) << ", batch "
      << impl_->options.batch;
  if (impl_->options.device.is_cpu()) out << ", " << impl_->options.threads << " threads";
  out << "; memory: activations " << detail::format_bytes(memory.activations) << ", workspace "
      << detail::format_bytes(memory.workspace) << ", packed parameters " << detail::format_bytes(memory.parameters)
      << '\n';
  return std::move(out).str();
}

}  // namespace lamina
