// Graph::summary and Plan::summary: what people read to see what a network is and how it will run.

#include <algorithm>

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
  // Of every step the offset of its output's buffer in the arena; the caller's memory has none.
  std::vector<std::string> offsets(impl_->steps.size(), "caller's");
  const auto* first = static_cast<const std::byte*>(impl_->arena.raw());
  for (const Impl::Buffer& buffer : impl_->buffers) {
    for (const Impl::Use& use : buffer.uses) {
      if (use.slot >= 0 || !buffer.home.defined()) continue;
      offsets[use.step] = std::to_string(static_cast<const std::byte*>(buffer.home.raw()) - first);
    }
  }
  for (std::size_t i = 0; i < impl_->steps.size(); ++i) {
    const Impl::Step& step = impl_->steps[i];
    table.add({step.name, step.fused, step.output.shape().to_string(), detail::concat(step.output_format),
               step.flops > 0 ? detail::format_fixed(step.flops * 1e-6, 1) : "", detail::format_bytes(step.bytes),
               offsets[i]},
              step.op->description());
  }
  const PlanMemory memory = impl_->memory;
  const std::string threads =
      impl_->options.device.is_cpu() ? detail::concat(", ", impl_->options.threads, " threads") : "";
  return detail::concat(
      table.to_string(), "on ", impl_->options.device, ", ", name(impl_->options.precision), ", batch ",
      impl_->options.batch, threads, "; memory: activations ", detail::format_bytes(memory.activations), ", workspace ",
      detail::format_bytes(memory.workspace), ", packed parameters ", detail::format_bytes(memory.parameters), '\n');
}

}  // namespace lamina
