// Each operation becomes a step of the Plan: its kernel packs the weights, and is told where its operands are.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/compile/on_host.h"
#include "lamina/compile/passes.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::detail {
namespace {

using Operation = Program::Operation;

std::size_t parameter_bytes(const Module& module) {
  std::size_t bytes = 0;
  for (const auto& parameter : module.parameters()) bytes += parameter.value.bytes();
  return bytes;
}

std::size_t bytes_moved(const Program& program, const Operation& op) {
  std::size_t bytes = 0;
  for (const int input : op.inputs) {
    bytes += bytes_of(program.value(input).shape, program.value(input).format);
  }
  for (const int result : {op.output, op.second_output}) {
    if (result != none) bytes += bytes_of(program.value(result).shape, program.value(result).format);
  }
  return bytes;
}

/// Equal texts are one kernel.
void note_texts(std::vector<KernelText>& known, const std::string& step) {
  for (std::string& text : DryRun::take_texts()) {
    auto place = std::ranges::find(known, text, &KernelText::text);
    if (place == known.end()) place = known.insert(known.end(), {std::move(text), {}});
    place->steps.push_back(step);
  }
}

void use(Compilation& c, int value, std::size_t step, int slot) {
  const Program::Value& v = c.program.value(value);
  c.plan->buffers[c.buffer_of(value)].uses.push_back({step, slot, v.shape, v.format.dtype, Program::slice_offset(v)});
}

std::unique_ptr<Operator> prepare_step(const Compilation& c, const Operation& op, const PreparedViews& views) {
  std::vector<Tensor> constants;
  for (const int input : op.inputs) constants.push_back(c.program.value(input).constant);
  if (auto prepared = on_host(*op.module, views.preparation, constants)) return prepared;
  if (auto prepared = op.module->prepare(views.preparation)) return prepared;
  fail(op.module->op(), ": expected an operator of its prepare, got null");
}

}  // namespace

void prepare_steps(Compilation& c) {
  Plan::Impl* const plan = c.plan.get();
  (void)c.constants.bytes_of_step();  // what is in use already counts for no step
  for (Operation& op : c.program.operations) {
    if (op.view) continue;
    heed_stop(plan->options.stop, "compile");
    const PreparedViews views(c.program, op, plan->options);
    Plan::Impl::Step step;
    step.name = op.name;
    step.fused = op.fused;
    step.input_format = views.inputs[0].format;
    step.output_format = views.outputs[0].format;
    step.output_shape = views.outputs[0].shape;
    step.output_buffer = c.buffer_of(op.output);
    std::vector<Shape> shapes;
    for (const View& input : views.inputs) shapes.push_back(input.shape);
    step.op = at_node(op.name, [&] { return prepare_step(c, op, views); });
    if (c.texts != nullptr) note_texts(*c.texts, op.name);
    step.inputs.resize(shapes.size());
    step.flops = op.module->flops(shapes);
    step.bytes = bytes_moved(c.program, op);
    plan->memory.workspace = std::max(plan->memory.workspace, step.op->workspace_bytes());
    plan->counter_bytes = std::max(plan->counter_bytes, step.op->counter_bytes());

    const std::size_t number = plan->steps.size();
    step.beside = op.beside && step.op->heeds_neighbours() && plan->steps.back().op->heeds_neighbours();
    for (std::size_t slot = 0; slot < shapes.size(); ++slot) use(c, op.inputs[slot], number, static_cast<int>(slot));
    step.outputs.resize(views.outputs.size());
    use(c, op.output, number, -1);
    if (op.second_output != none) use(c, op.second_output, number, -2);
    plan->steps.push_back(std::move(step));
    const std::size_t of_module = parameter_bytes(*op.module), own = plan->steps.back().op->parameter_bytes();
    op.module.reset();  // frees weights that only it holds: they are packed now, and would be there twice
    const std::size_t asked = c.constants.bytes_of_step();
    const bool in_place = asked + own == 0;  // as a module of the user's does whose operator asks for nothing
    plan->steps.back().bytes += in_place ? of_module : asked + own;
    plan->memory.parameters += in_place && c.release && plan->options.device.is_cpu() ? of_module : own;
  }
  if (plan->counter_bytes > 0) {
    plan->memory.workspace = round_up<std::size_t>(plan->memory.workspace, sizeof(std::int64_t)) + plan->counter_bytes;
  }
  for (const Plan::Impl::Step& step : plan->steps) at_node(step.name, [&] { step.op->wait(); });
  plan->derived = c.constants.kept_derived();
  plan->constants = c.constants.in_use();
  for (const auto& bytes : plan->constants) plan->memory.parameters += *bytes;
}

/// A step beside another is launched when the other begins, not earlier. For a product that costs more than waiting
/// until a single other step ends.
void settle_neighbours(Compilation& compilation) {
  std::vector<Plan::Impl::Step>& steps = compilation.plan->steps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const bool pair = steps[i].beside && !steps[i - 1].beside && (i + 1 == steps.size() || !steps[i + 1].beside);
    if (pair && steps[i].flops > 0) steps[i].beside = false;
  }
}

}  // namespace lamina::detail
