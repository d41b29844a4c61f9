#include "lamina/plan/plan.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/plan/plan_impl.h"

namespace lamina {
namespace {

using detail::fail;

void require_fits(const Tensor& tensor, const Plan::Impl::Port& port, Device device) {
  if (!tensor.defined() || tensor.dtype() != port.dtype || tensor.shape() != port.shape) {
    fail(port.name, ": expected ", port.dtype, ' ', port.shape, " as compiled, got ", tensor.description());
  }
  if (tensor.device() != device && !tensor.device().is_cpu()) {
    fail(port.name, ": expected a tensor on ", device, " or on the cpu, got ", tensor.description(),
         "; move it with to(Device)");
  }
}

/// Whether kernels may work on the tensor where it is. On a GPU they move 16 bytes at a time.
bool in_place(const Tensor& tensor, Device device) {
  return tensor.device() == device &&
         (device.is_cpu() || reinterpret_cast<std::uintptr_t>(tensor.raw()) % detail::port_alignment == 0);
}

bool all_on_host(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.device().is_cpu(); });
}

}  // namespace

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

void Plan::Impl::bind(std::size_t index, const Tensor& target) {
  Buffer& buffer = buffers[index];
  buffer.bound = target;
  for (const Use& use : buffer.uses) {
    Step& step = steps[use.step];
    (use.slot < 0 ? step.output : step.inputs[static_cast<std::size_t>(use.slot)]) = view(index, use.shape, use.dtype);
  }
}

Tensor Plan::Impl::view(std::size_t index, const Shape& shape, DType dtype) const {
  return buffers[index].bound.reinterpret(shape, dtype);
}

void Plan::Impl::bind_inputs(std::span<const Tensor> tensors, void* stream) {
  if (tensors.size() != inputs.size()) fail("run: expected ", inputs.size(), " inputs, got ", tensors.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) require_fits(tensors[i], inputs[i], options.device);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t buffer = inputs[i].buffer;
    if (in_place(tensors[i], options.device)) {
      bind(buffer, tensors[i]);
      continue;
    }
    Tensor& home = buffers[buffer].home;
    const auto copy = tensors[i].device().is_cpu() ? cuda::upload : cuda::copy_on_device;
    copy(options.device.index, home.raw(), tensors[i].raw(), tensors[i].bytes(), stream);
    bind(buffer, home);
  }
}

std::span<const Tensor> Plan::run(std::span<const Tensor> inputs, void* stream) {
  Impl& p = *impl_;
  p.bind_inputs(inputs, stream);
  for (const Impl::Port& output : p.outputs) {
    if (output.bindable) p.bind(output.buffer, p.buffers[output.buffer].home);
  }
  p.enqueue(stream);
  const bool download = p.options.device.is_cuda() && all_on_host(inputs);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    Impl::Port& output = p.outputs[i];
    p.results[i] = p.view(output.buffer, output.shape, output.dtype);
    if (!download) continue;
    cuda::download(p.options.device.index, output.staging.raw(), p.results[i].raw(), output.staging.bytes(), stream);
    p.results[i] = output.staging;
  }
  if (download) cuda::synchronize(p.options.device.index, stream);
  return p.results;
}

Tensor Plan::run(const Tensor& input, void* stream) {
  if (impl_->inputs.size() != 1 || impl_->outputs.size() != 1) {
    fail("run: this graph has ", impl_->inputs.size(), " inputs and ", impl_->outputs.size(),
         " outputs; pass and receive them as spans");
  }
  return run(std::span<const Tensor>(&input, 1), stream)[0];
}

void Plan::run(std::initializer_list<NamedTensor> inputs, void* stream) {
  Impl& p = *impl_;
  for (Tensor& slot : p.named_inputs) slot = Tensor();
  for (const auto& [name, tensor] : inputs) {
    const auto found = std::find(p.input_names.begin(), p.input_names.end(), name);
    if (found == p.input_names.end()) fail("run: the graph has no input \"", name, '"');
    Tensor& slot = p.named_inputs[static_cast<std::size_t>(found - p.input_names.begin())];
    if (slot.defined()) fail("run: input \"", name, "\" was given twice");
    slot = tensor;
  }
  run(std::span<const Tensor>(p.named_inputs), stream);
}

void Plan::run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
  Impl& p = *impl_;
  const Device device = p.options.device;
  if (outputs.size() != p.outputs.size())
    fail("run_into: expected ", p.outputs.size(), " outputs, got ", outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_fits(outputs[i], p.outputs[i], device);
  }
  p.bind_inputs(inputs, stream);
  const auto computed_in_place = [&](std::size_t i) { return p.outputs[i].bindable && in_place(outputs[i], device); };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!p.outputs[i].bindable) continue;
    const std::size_t buffer = p.outputs[i].buffer;
    p.bind(buffer, computed_in_place(i) ? outputs[i] : p.buffers[buffer].home);
  }
  p.enqueue(stream);
  bool wait = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    p.results[i] = p.view(p.outputs[i].buffer, p.outputs[i].shape, p.outputs[i].dtype);
    if (computed_in_place(i)) continue;
    if (device.is_cpu()) {
      outputs[i].copy_from(p.results[i]);
    } else if (outputs[i].device().is_cpu()) {
      cuda::download(device.index, outputs[i].raw(), p.results[i].raw(), outputs[i].bytes(), stream);
      wait = true;
    } else {
      cuda::copy_on_device(device.index, outputs[i].raw(), p.results[i].raw(), outputs[i].bytes(), stream);
    }
  }
  if (wait) cuda::synchronize(device.index, stream);
}

std::span<const std::string> Plan::input_names() const { return impl_->input_names; }
std::span<const std::string> Plan::output_names() const { return impl_->output_names; }
std::span<const Shape> Plan::input_shapes() const { return impl_->input_shapes; }
std::span<const DType> Plan::input_dtypes() const { return impl_->input_dtypes; }
std::span<const Shape> Plan::output_shapes() const { return impl_->output_shapes; }
std::span<const DType> Plan::output_dtypes() const { return impl_->output_dtypes; }

Tensor Plan::output(std::string_view name) const {
  const auto& names = impl_->output_names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail("plan: there is no output \"", name, '"');
  const Tensor& result = impl_->results[static_cast<std::size_t>(found - names.begin())];
  if (!result.defined()) fail("plan: output \"", name, "\" is there after the first run");
  return result;
}

Tensor Plan::activation(std::string_view name) const {
  if (!impl_->options.keep_all) fail("plan: compile with keep_all to read activations");
  for (const Impl::NodeOutput& node : impl_->kept) {
    if (node.name != name) continue;
    if (!impl_->buffers[node.buffer].bound.defined()) fail("plan: ", name, " is there after the first run");
    return impl_->view(node.buffer, node.shape, node.dtype);
  }
  fail("plan: there is no node \"", name, '"');
}

const CompileOptions& Plan::options() const { return impl_->options; }
PlanMemory Plan::memory() const { return impl_->memory; }

}  // namespace lamina
