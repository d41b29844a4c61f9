// Graph::compile: fusion, formats, concatenation in place, buffers, kernels and memory, in that order.

#include <algorithm>
#include <new>
#include <set>

#include "lamina/base/error.h"
#include "lamina/compile/buffers.h"
#include "lamina/compile/program.h"
#include "lamina/graph/graph.h"
#include "lamina/plan/plan_impl.h"
#include "lamina/tensor/device_memory.h"

namespace lamina {
namespace {

using detail::fail;
using detail::none;
using detail::Program;

class Compiler {
 public:
  /// With `release` the graph gives up its modules as they become part of the plan.
  Compiler(const Graph& graph, const CompileOptions& options, detail::Release release = {})
      : graph_(graph), release_(std::move(release)), plan_(std::make_unique<Plan::Impl>()) {
    plan_->options = options;
  }

  std::unique_ptr<Plan::Impl> compile() {
    if (const Device device = plan_->options.device; device.is_cuda()) detail::require_cuda_device(device.index);
    prepare();
    add_ports();
    allocate();
    return std::move(plan_);
  }

  /// Without taking any memory on a GPU.
  const Plan::Impl& look() {
    const detail::DryRun nothing_taken;
    prepare();
    return *plan_;
  }

 private:
  using Operation = Program::Operation;

  void prepare() {
    detail::settle_options(graph_, plan_->options);
    if (!release_) given_ = parameters_of_graph();
    program_ = detail::negotiate(detail::fuse(graph_, plan_->options, release_), plan_->options);
    detail::join_in_place(program_, plan_->options);
    detail::stride_in_place(program_, plan_->options);
    detail::gather_neighbours(program_, plan_->options);
    buffer_of_ = detail::assign_buffers(program_, *plan_);
    prepare_steps();
    place_buffers();
  }

  int buffer_of(int value) const { return buffer_of_[static_cast<std::size_t>(value)]; }
  Plan::Impl::Buffer& buffer(int index) { return plan_->buffers[static_cast<std::size_t>(index)]; }

  void prepare_steps() {
    for (Operation& op : program_.operations) {
      if (op.view) continue;
      const detail::PreparedViews views(program_, op, plan_->options);
      Plan::Impl::Step step;
      step.name = op.name;
      step.fused = op.fused;
      step.input_format = views.inputs[0].format;
      step.output_format = views.outputs[0].format;
      step.output_shape = views.outputs[0].shape;
      step.output_buffer = static_cast<std::size_t>(buffer_of(op.output));
      std::vector<Shape> shapes;
      for (const View& input : views.inputs) shapes.push_back(input.shape);
      try {
        step.op = op.module->prepare(views.preparation);
      } catch (const Error& error) {
        fail(op.name, ": ", error.what());
      }
      step.inputs.resize(shapes.size());
      step.flops = op.module->flops(shapes);
      step.bytes = bytes_moved(op, *step.op);
      plan_->memory.workspace = std::max(plan_->memory.workspace, step.op->workspace_bytes());
      plan_->memory.parameters += parameter_bytes(op, *step.op);

      const std::size_t number = plan_->steps.size();
      step.beside = op.beside && step.op->heeds_neighbours() && plan_->steps.back().op->heeds_neighbours();
      for (std::size_t slot = 0; slot < shapes.size(); ++slot) use(op.inputs[slot], number, static_cast<int>(slot));
      step.outputs.resize(views.outputs.size());
      use(op.output, number, -1);
      if (op.second_output != none) use(op.second_output, number, -2);
      plan_->steps.push_back(std::move(step));
      op.module.reset();  // and with it weights of its own that were packed: or all of them would be there twice
    }
    settle_neighbours();
  }

  /// A step beside another is launched when that one begins, not before; for a product this takes longer than to wait
  /// for the end of one other.
  void settle_neighbours() {
    std::vector<Plan::Impl::Step>& steps = plan_->steps;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      const bool pair = steps[i].beside && !steps[i - 1].beside && (i + 1 == steps.size() || !steps[i + 1].beside);
      if (pair && steps[i].flops > 0) steps[i].beside = false;
    }
  }

  static std::size_t parameter_bytes(const Module& module) {
    std::size_t bytes = 0;
    for (const auto& parameter : module.parameters()) bytes += parameter.value.bytes();
    return bytes;
  }

  std::size_t bytes_moved(const Operation& op, const Operator& prepared) {
    std::size_t bytes = prepared.parameter_bytes();
    if (bytes == 0) bytes = parameter_bytes(*op.module);
    for (const int input : op.inputs) {
      bytes += detail::bytes_of(program_.value(input).shape, program_.value(input).format);
    }
    for (const int result : {op.output, op.second_output}) {
      if (result != none) bytes += detail::bytes_of(program_.value(result).shape, program_.value(result).format);
    }
    return bytes;
  }

  std::set<const void*> parameters_of_graph() const {
    std::set<const void*> result;
    for (const Graph::Node& node : graph_.nodes()) {
      if (node.module == nullptr) continue;
      for (const auto& parameter : node.module->parameters()) result.insert(parameter.value.raw());
    }
    return result;
  }

  /// Bytes of the operator's packed parameters; where it uses them in place, of those that are not the graph's, but
  /// made by folding or turning, or given up. On a GPU it has copies, which it counts itself.
  std::size_t parameter_bytes(const Operation& op, const Operator& prepared) const {
    std::size_t bytes = prepared.parameter_bytes();
    if (bytes > 0 || plan_->options.device.is_cuda()) return bytes;
    for (const auto& parameter : op.module->parameters()) {
      if (!given_.contains(parameter.value.raw())) bytes += parameter.value.bytes();
    }
    return bytes;
  }

  void use(int value, std::size_t step, int slot) {
    const Program::Value& v = program_.value(value);
    buffer(buffer_of(value)).uses.push_back({step, slot, v.shape, v.format.dtype, Program::slice_offset(v)});
  }

  Plan::Impl::Port port(int value) {
    const Program::Value& v = program_.value(value);
    const Shape& shape = v.shape;
    const bool channels_last = v.format.layout == Layout::nhwc;
    return {.name = {},
            .shape = channels_last ? Shape{shape[0], shape[2], shape[3], shape[1]} : shape,
            .dtype = v.format.dtype,
            .buffer = static_cast<std::size_t>(buffer_of(value)),
            .padded = {},
            .staging = {}};
  }

  void add_ports() {
    std::vector<bool> claimed(plan_->buffers.size(), false);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      plan_->inputs.push_back(port(program_.inputs[i]));
      plan_->inputs.back().batched = program_.input_batched[i];
      plan_->inputs.back().name = program_.value(program_.inputs[i]).name;
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      Plan::Impl::Port output = port(program_.outputs[i]);
      output.name = program_.output_names[i];
      output.batched = program_.output_batched[i];
      const Plan::Impl::Buffer& computed = plan_->buffers[output.buffer];
      output.bindable = !computed.input && !computed.constant.defined() && !claimed[output.buffer];
      claimed[output.buffer] = true;
      plan_->outputs.push_back(std::move(output));
    }
    for (const auto& input : plan_->inputs) {
      plan_->input_names.push_back(input.name);
      plan_->input_shapes.push_back(input.shape);
      plan_->input_dtypes.push_back(input.dtype);
    }
    for (const auto& output : plan_->outputs) {
      plan_->output_names.push_back(output.name);
      plan_->output_shapes.push_back(output.shape);
      plan_->output_dtypes.push_back(output.dtype);
    }
    for (const auto& [name, value] : program_.kept) {
      const Program::Value& v = program_.value(value);
      plan_->kept.push_back({name, v.shape, v.format.dtype, static_cast<std::size_t>(buffer_of(value))});
    }
  }

  void place_buffers() {
    // A CPU plan reads its inputs where the caller has them; on a GPU they may have to be uploaded to somewhere.
    std::vector<detail::Lifetime> lives;
    for (std::size_t b = 0; b < plan_->buffers.size(); ++b) {
      const Plan::Impl::Buffer& buffer = plan_->buffers[b];
      if (buffer.constant.defined() || (buffer.input && plan_->options.device.is_cpu())) continue;
      lives.push_back(buffer.life);
      homed_.push_back(b);
    }
    arena_ = detail::plan_arena(lives);
    for (std::size_t i = 0; i < homed_.size(); ++i) plan_->buffers[homed_[i]].offset = arena_.offsets[i];
    plan_->memory.activations = arena_.bytes;
  }

  void allocate() {
    const Device device = plan_->options.device;
    plan_->pool = plan_->options.pool;
    if (!plan_->pool) plan_->pool = std::make_shared<ThreadPool>(plan_->options.threads);
    const auto bytes = [](std::size_t n) { return Shape{static_cast<std::int64_t>(n)}; };
    plan_->arena = Tensor(bytes(arena_.bytes), DType::u8, device);
    plan_->workspace = Tensor(bytes(plan_->memory.workspace), DType::u8, device);
    for (std::size_t i = 0; i < homed_.size(); ++i) {
      Plan::Impl::Buffer& buffer = plan_->buffers[homed_[i]];
      const auto offset = static_cast<std::int64_t>(*buffer.offset);
      buffer.home = plan_->arena.slice(offset, offset + static_cast<std::int64_t>(buffer.life.bytes));
      plan_->bind(homed_[i], buffer.home);
    }
    for (std::size_t b = 0; b < plan_->buffers.size(); ++b) {
      Plan::Impl::Buffer& buffer = plan_->buffers[b];
      if (!buffer.constant.defined()) continue;
      buffer.home = buffer.constant = buffer.constant.to(device);
      plan_->bind(b, buffer.home);
    }
    for (auto& output : plan_->outputs) {
      if (device.is_cuda()) output.staging = Tensor::pinned(output.shape, output.dtype);
    }
    for (auto& recording : plan_->recordings) {
      recording.addresses.reserve(plan_->inputs.size() + plan_->outputs.size());
    }
    plan_->results.resize(plan_->outputs.size());
    plan_->named_inputs.resize(plan_->inputs.size());
  }

  const Graph& graph_;
  const detail::Release release_;
  std::unique_ptr<Plan::Impl> plan_;
  std::set<const void*> given_;  // parameters that stay the graph's
  Program program_;
  std::vector<int> buffer_of_;      // by value
  std::vector<std::size_t> homed_;  // buffers that live in the arena
  detail::Arena arena_;
};

}  // namespace

namespace {

/// Nothing but Error leaves the library, memory that runs out included.
template <class F>
auto with_memory(const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail("compile: out of memory");
  }
}

}  // namespace

PlanMemory Graph::plan_memory(const CompileOptions& options) const {
  return with_memory([&] { return Compiler(*this, options).look().memory; });
}

std::string Graph::plan_summary(const CompileOptions& options) const {
  return with_memory([&] { return Compiler(*this, options).look().summary(); });
}

Plan Graph::compile(const CompileOptions& options) const& {
  return with_memory([&] { return Plan(Compiler(*this, options).compile()); });
}

Plan Graph::compile(const CompileOptions& options) && {
  Graph graph = std::move(*this);
  const auto release = [&](std::size_t node) { graph.nodes_[node].module.reset(); };
  return with_memory([&] { return Plan(Compiler(graph, options, release).compile()); });
}

}  // namespace lamina
