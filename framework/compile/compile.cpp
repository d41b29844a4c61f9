// Graph::compile: the passes (passes.cpp), and then the memory that they found to be needed.

#include <algorithm>
#include <new>

#include "lamina/base/error.h"
#include "lamina/compile/passes.h"
#include "lamina/graph/graph.h"
#include "lamina/tensor/device_memory.h"

namespace lamina {
namespace {

using detail::fail;

class Compiler {
 public:
  /// With `release` the graph gives up its modules as they become part of the plan.
  Compiler(const Graph& graph, const CompileOptions& options, detail::Release release = {})
      : compilation_{graph, std::move(release)}, plan_(*compilation_.plan), program_(compilation_.program) {
    plan_.options = options;
  }

  std::unique_ptr<Plan::Impl> compile() {
    if (const Device device = plan_.options.device; device.is_cuda()) detail::require_cuda_device(device.index);
    prepare();
    add_ports();
    allocate();
    return std::move(compilation_.plan);
  }

  /// Without taking any memory on a GPU.
  const Plan::Impl& look() {
    const detail::DryRun nothing_taken;
    prepare();
    return plan_;
  }

 private:
  void prepare() {
    detail::settle_options(compilation_.graph, plan_.options);
    keep_parameters();
    detail::take_passes(compilation_);
  }

  /// Weights of the graph, which keeps them or gives them up, and the caller's constants.
  void keep_parameters() {
    const bool given_up = compilation_.release != nullptr;
    for (const Graph::Node& node : compilation_.graph.nodes()) {
      if (node.module == nullptr) continue;
      for (const auto& parameter : node.module->parameters()) compilation_.constants.keep(parameter.value, given_up);
    }
    for (const auto& [name, value] : plan_.options.constants) compilation_.constants.keep(value, false);
    // A network with open extents is compiled for several sizes; what its plans derive from the weights is the same for
    // all.
    constexpr std::size_t room = std::size_t{64} << 20;
    const auto is_open = [&](int input) {
      const auto& shape = compilation_.graph.nodes()[static_cast<std::size_t>(input)].shape;
      return shape && !shape->with_batch(1).is_known();
    };
    if (std::ranges::any_of(compilation_.graph.inputs(), is_open)) compilation_.constants.keep_derived(room);
  }

  Plan::Impl::Port port(int value) {
    const detail::Program::Value& v = program_.value(value);
    const Shape& shape = v.shape;
    const bool channels_last = v.format.layout == Layout::nhwc;
    return {.shape = channels_last ? Shape{shape[0], shape[2], shape[3], shape[1]} : shape,
            .dtype = v.format.dtype,
            .buffer = compilation_.buffer_of(value)};
  }

  void add_ports() {
    std::vector<bool> claimed(plan_.buffers.size(), false);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      plan_.inputs.push_back(port(program_.inputs[i]));
      plan_.inputs.back().batched = program_.input_batched[i];
      plan_.inputs.back().name = program_.value(program_.inputs[i]).name;
    }
    const std::size_t outputs = program_.output_names.size();
    for (std::size_t i = 0; i < outputs; ++i) {
      Plan::Impl::Port output = port(program_.outputs[i]);
      output.counts = program_.output_counts[i];
      output.name = program_.output_names[i];
      output.batched = program_.output_batched[i];
      const Plan::Impl::Buffer& computed = plan_.buffers[output.buffer];
      output.bindable = !computed.input && !computed.constant.defined() && !claimed[output.buffer];
      claimed[output.buffer] = true;
      plan_.outputs.push_back(std::move(output));
    }
    for (std::size_t i = outputs; i < program_.outputs.size(); ++i) plan_.counts.push_back(port(program_.outputs[i]));
    for (const auto& input : plan_.inputs) {
      plan_.input_names.push_back(input.name);
      plan_.input_shapes.push_back(input.shape);
      plan_.input_dtypes.push_back(input.dtype);
    }
    for (const auto& output : plan_.outputs) {
      plan_.output_names.push_back(output.name);
      plan_.output_shapes.push_back(output.shape);
      plan_.output_dtypes.push_back(output.dtype);
    }
    for (const auto& [name, value] : program_.kept) {
      const detail::Program::Value& v = program_.value(value);
      plan_.kept.push_back({name, v.shape, v.format.dtype, compilation_.buffer_of(value)});
    }
  }

  void allocate() {
    const Device device = plan_.options.device;
    const std::vector<std::size_t>& homed = compilation_.homed;
    plan_.pool = plan_.options.pool;
    if (!plan_.pool) plan_.pool = std::make_shared<ThreadPool>(plan_.options.threads);
    const auto bytes = [](std::size_t n) { return Shape{static_cast<std::int64_t>(n)}; };
    plan_.arena = Tensor(bytes(compilation_.arena.bytes), DType::u8, device);
    plan_.workspace = Tensor(bytes(plan_.memory.workspace), DType::u8, device);
    if (plan_.counter_bytes > 0) {
      const auto end = static_cast<std::int64_t>(plan_.memory.workspace),
                 counters = static_cast<std::int64_t>(plan_.counter_bytes);
      plan_.workspace.slice(end - counters, end).copy_from(Tensor::zeros({counters}, DType::u8));
    }
    for (std::size_t i = 0; i < homed.size(); ++i) {
      Plan::Impl::Buffer& buffer = plan_.buffers[homed[i]];
      const auto offset = static_cast<std::int64_t>(*buffer.offset);
      buffer.home = plan_.arena.slice(offset, offset + static_cast<std::int64_t>(buffer.life.bytes));
      plan_.bind(homed[i], buffer.home);
    }
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      Plan::Impl::Buffer& buffer = plan_.buffers[b];
      if (!buffer.constant.defined()) continue;
      buffer.home = buffer.constant;
      plan_.bind(b, buffer.home);
    }
    if (device.is_cuda()) {
      plan_.faults = Tensor::pinned(bytes(plan_.steps.size() * sizeof(Fault)), DType::u8);
      std::fill_n(static_cast<Fault*>(plan_.faults.raw()), plan_.steps.size(), Fault());
    }
    for (auto& output : plan_.outputs) {
      if (device.is_cuda()) output.staging = Tensor::pinned(output.shape, output.dtype);
      if (output.counted())
        output.packed = Tensor(bytes(detail::bytes_of(output.shape, {.dtype = output.dtype})), DType::u8);
    }
    for (auto& count : plan_.counts) {
      if (device.is_cuda()) count.staging = Tensor::pinned(count.shape, count.dtype);
    }
    for (auto& recording : plan_.recordings) {
      recording.addresses.reserve(plan_.inputs.size() + plan_.outputs.size());
    }
    plan_.results.resize(plan_.outputs.size());
    plan_.named_inputs.resize(plan_.inputs.size());
  }

  detail::Compilation compilation_;
  Plan::Impl& plan_;
  const detail::Program& program_;
};

/// Nothing but Error leaves the library, memory that runs out included.
template <class F>
auto with_memory(const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::out_of_memory, "compile: out of memory");
  }
}

}  // namespace

PlanMemory Graph::plan_memory(const CompileOptions& options) const {
  return with_memory([&] { return Compiler(*this, options).look().memory_now(); });
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
