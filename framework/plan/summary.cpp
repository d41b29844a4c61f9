#include "lamina/base/error.h"
#include "lamina/base/text_table.h"
#include "lamina/plan/plan_impl.h"

namespace lamina {

std::string Plan::Impl::summary() const {
  detail::TextTable table({"step", "fused", "output", "stored as", "MFLOP", "moves", "offset"});
  table.wrap({1});
  for (const Step& step : steps) {
    const Buffer& buffer = buffers[step.output_buffer];
    // The offset of the output's buffer in the arena. Memory of the caller has none.
    table.add({step.name, step.fused, step.output_shape.to_string(), detail::concat(step.output_format),
               step.flops > 0 ? detail::format_fixed(step.flops * 1e-6, 1) : "", detail::format_bytes(step.bytes),
               buffer.offset ? std::to_string(*buffer.offset) : "caller's"},
              step.op->description() + (step.beside ? ", beside the step before" : ""));
  }
  const std::string threads = options.device.is_cpu() ? detail::concat(", ", options.threads, " threads") : "";
  return detail::concat(table.to_string(), "on ", options.device, ", ", name(options.precision), ", batch ",
                        options.batch, options.batch_invariant ? ", batch-invariant" : "", threads,
                        "; memory: activations ", detail::format_bytes(memory.activations), ", workspace ",
                        detail::format_bytes(memory.workspace), ", packed parameters ",
                        detail::format_bytes(memory.parameters), '\n');
}

std::string Plan::summary() const { return impl().summary(); }

PlanMemory Plan::Impl::memory_now() const {
  PlanMemory result = memory;
  for (const auto& bytes : constants) result.shared += bytes.use_count() > 2 ? *bytes : 0;
  return result;
}

}  // namespace lamina
