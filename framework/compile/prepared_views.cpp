// How an operation's operands and result lie in memory, as its kernels are asked about them.

#include <numeric>

#include "lamina/compile/program.h"
#include "lamina/plan/arena.h"

namespace lamina::detail {

PreparedViews::PreparedViews(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  const auto view = [&](int index) {
    const Program::Value& value = program.value(index);
    const std::size_t alignment = options.device.is_cpu() ? alignof(float) : port_alignment;
    View result = {.shape = value.shape, .format = value.format, .alignment = alignment};
    const auto size = static_cast<std::int64_t>(size_of(value.format.dtype));
    if (value.strides.rank() > 0) {
      result.strides = value.strides;
      std::size_t step = Program::slice_offset(value);
      for (int d = 0; d < static_cast<int>(value.shape.rank()); ++d) {
        const std::int64_t bytes = value.strides[d] * size;
        if (value.shape[d] > 1 && value.strides[d] != 1) step = std::gcd(step, static_cast<std::size_t>(bytes));
      }
      result.alignment = std::gcd(alignment, step);
    } else if (value.whole >= 0) {
      result.channels = program.value(value.whole).shape[1];
      const auto pixel = static_cast<std::size_t>(result.channels) * size_of(value.format.dtype);
      result.alignment = std::gcd(std::gcd(alignment, Program::slice_offset(value)), pixel);
    }
    return result;
  };
  for (const int input : op.inputs) {
    inputs.push_back(view(input));
    values_.push_back(&program.value(input));
  }
  outputs.push_back(view(op.output));
  if (op.second_output >= 0) outputs.push_back(view(op.second_output));
  preparation = {.inputs = inputs,
                 .outputs = outputs,
                 .device = *options.description,
                 .precision = options.precision,
                 .algorithm = options.algorithm,
                 .linear_weights = options.linear_weights,
                 .threads = options.threads,
                 .images = options.batch,
                 .batch_invariant = options.batch_invariant,
                 .workspace_limit = options.workspace_limit};
}

Preparation& PreparedViews::with(Format in, Format out) {
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].format = format_of_input(*values_[i], in);
  for (View& output : outputs) output.format = out;
  return preparation;
}

bool runs_in_some_format(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  PreparedViews views(program, op, options);
  for (const Format input : formats(program.value(op.inputs[0]), options)) {
    for (const Format output : formats(program.value(op.output), options)) {
      if (op.module->takes(views.with(input, output))) return true;
    }
  }
  return false;
}

bool runs_in_place(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  return op.module->knows_gaps() && op.module->takes(PreparedViews(program, op, options).preparation);
}

}  // namespace lamina::detail
