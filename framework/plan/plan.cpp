#include "lamina/plan/plan.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/plan/plan_impl.h"

namespace lamina {
namespace {

using detail::fail;

/// The shape of a caller's tensor for that port, for so many images.
Shape shape_for(const Plan::Impl::Port& port, std::int64_t images) {
  Shape shape = port.shape;
  if (port.batched) shape.set(0, images);
  return shape;
}

void require_fits(const Tensor& tensor, const Plan::Impl::Port& port, std::int64_t images, Device device) {
  if (!tensor.defined() || tensor.dtype() != port.dtype || tensor.shape() != shape_for(port, images)) {
    const std::size_t rank = tensor.defined() ? tensor.shape().rank() : 0, wanted = port.shape.rank();
    const bool more = port.batched && rank > 0 && rank == wanted && tensor.shape()[0] > images;
    const bool alone = port.batched && tensor.defined() && rank + 1 == wanted;
    fail(port.name, ": expected ", port.dtype, ' ', shape_for(port, images), " as compiled, got ", tensor.description(),
         more    ? "; fewer images may be given, not more"
         : alone ? "; one image is a batch of one, whose first extent is 1"
                 : "");
  }
  if (tensor.device() != device && !tensor.device().is_cpu()) {
    fail(port.name, ": expected a tensor on ", device.is_cpu() ? "" : to_string(device) + " or on ", "the cpu, got ",
         tensor.description(), "; move it there");
  }
}

/// Whether kernels may work on the tensor where it is: on a GPU they move 16 bytes at a time, so its address must be a
/// multiple of that.
bool in_place(const Tensor& tensor, Device device) {
  return tensor.device() == device &&
         (device.is_cpu() || reinterpret_cast<std::uintptr_t>(tensor.raw()) % detail::port_alignment == 0);
}

/// Throws Error if a result's memory overlaps that of `other`: a result is written while others are still computed from
/// what the run was given.
void require_apart(const Tensor& target, const std::string& output, const Tensor& other, const std::string& name) {
  const std::less<const void*> before;
  const auto end = [](const Tensor& t) { return static_cast<const std::byte*>(t.raw()) + t.bytes(); };
  if (!before(target.raw(), end(other)) || !before(other.raw(), end(target))) return;
  fail(output, ": expected memory of its own for the result, got memory of ", name);
}

bool all_on_host(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.device().is_cpu(); });
}

}  // namespace

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Plan::Impl& Plan::impl() const {
  if (impl_ == nullptr) fail("plan: this Plan was moved from; use the one it was moved to");
  return *impl_;
}

Plan::Impl::Busy::Busy(Impl& plan) : plan_(plan) {
  if (!plan.busy.exchange(true, std::memory_order_acquire)) return;
  fail("plan: two threads use one Plan at once; compile one for each thread, they share the weights");
}

void Plan::Impl::bind(std::size_t index, const Tensor& target) {
  Buffer& buffer = buffers[index];
  buffer.bound = target;
  for (const Use& use : buffer.uses) {
    Step& step = steps[use.step];
    (use.slot < 0 ? step.outputs[static_cast<std::size_t>(-1 - use.slot)]
                  : step.inputs[static_cast<std::size_t>(use.slot)]) = view(index, use.shape, use.dtype, use.offset);
  }
}

Tensor Plan::Impl::view(std::size_t index, const Shape& shape, DType dtype, std::size_t offset) const {
  const Tensor& bound = buffers[index].bound;
  if (offset == 0 && detail::bytes_of(shape, {.dtype = dtype}) == bound.bytes()) return bound.reinterpret(shape, dtype);
  const Tensor bytes = bound.reinterpret({static_cast<std::int64_t>(bound.bytes())}, DType::u8);
  const auto begin = static_cast<std::int64_t>(offset);
  const auto count = static_cast<std::int64_t>(detail::bytes_of(shape, {.dtype = dtype}));
  return bytes.slice(begin, begin + count).reinterpret(shape, dtype);
}

std::int64_t Plan::Impl::images_of(std::span<const Tensor> tensors) const {
  if (tensors.size() != inputs.size()) fail("run: expected ", inputs.size(), " inputs, got ", tensors.size());
  std::int64_t images = options.batch;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    // The first input says how many images there are. If it does not fit at all, the Error says which shape was
    // compiled.
    if (!inputs[i].batched || shape.rank() != inputs[i].shape.rank()) continue;
    if (shape[0] >= 1 && shape[0] < options.batch) images = shape[0];
    break;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) require_fits(tensors[i], inputs[i], images, options.device);
  for (const Port& output : outputs) {
    if (images == options.batch || output.batched) continue;
    fail(output.name, ": is not an output of each image by itself; expected ", options.batch, " images, got ", images);
  }
  return images;
}

Tensor Plan::Impl::result(const Port& output, std::int64_t images) const {
  const Tensor all = view(output.buffer, output.shape, output.dtype);
  return output.batched ? all.slice(0, images) : all;
}

/// Sets images that are not there to zeros. An earlier call may have left an index out of range in their place, or
/// anything else that made it fail, which would fail this call too.
void Plan::Impl::bind_inputs(std::span<const Tensor> tensors, std::int64_t images, void* stream) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t buffer = inputs[i].buffer;
    const bool whole = images == options.batch || !inputs[i].batched;
    if (!whole && options.device.is_cpu()) {
      Tensor& padded = inputs[i].padded;
      if (!padded.defined()) padded = Tensor(inputs[i].shape, inputs[i].dtype);
      padded.slice(0, images).copy_from(tensors[i]);
      std::memset(static_cast<std::byte*>(padded.raw()) + tensors[i].bytes(), 0, padded.bytes() - tensors[i].bytes());
      bind(buffer, inputs[i].padded);
      continue;
    }
    if (whole && in_place(tensors[i], options.device)) {
      bind(buffer, tensors[i]);
      continue;
    }
    Tensor& home = buffers[buffer].home;
    const auto copy = tensors[i].device().is_cpu() ? cuda::upload : cuda::copy_on_device;
    copy(options.device.index, home.raw(), tensors[i].raw(), tensors[i].bytes(), stream);
    if (!whole) {
      cuda::fill_bytes(options.device.index, static_cast<std::byte*>(home.raw()) + tensors[i].bytes(), 0,
                       home.bytes() - tensors[i].bytes(), stream);
    }
    bind(buffer, home);
  }
}

std::span<const Tensor> Plan::Impl::run(std::span<const Tensor> tensors, void* stream, const Limits& asked) {
  begin(asked);
  const std::int64_t images = images_of(tensors);
  bind_inputs(tensors, images, stream);
  for (const Port& output : outputs) {
    if (output.bindable) bind(output.buffer, buffers[output.buffer].home);
  }
  enqueue(stream);
  const bool download =
      options.device.is_cuda() && (all_on_host(tensors) || std::ranges::any_of(outputs, &Port::counted));
  const auto come_down = [&](Port& port, const Tensor& found) {
    if (!download) return found;
    cuda::download(options.device.index, port.staging.raw(), found.raw(), found.bytes(), stream);
    return port.batched ? port.staging.slice(0, images) : port.staging;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) results[i] = come_down(outputs[i], result(outputs[i], images));
  for (Port& count : counts) count.number = come_down(count, view(count.buffer, count.shape, count.dtype));
  if (download) {
    cuda::synchronize(options.device.index, stream);
    check_run();
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].counted()) results[i] = counted_result(outputs[i], results[i]);
  }
  return results;
}

std::span<const Tensor> Plan::run(std::span<const Tensor> inputs, void* stream, const Limits& limits) {
  const Impl::Busy busy(impl());
  return impl_->run(inputs, stream, limits);
}

Tensor Plan::run(const Tensor& input, void* stream, const Limits& limits) {
  Impl& p = impl();
  const Impl::Busy busy(p);
  if (p.inputs.size() != 1 || p.outputs.size() != 1) {
    fail("run: this graph has ", p.inputs.size(), " inputs and ", p.outputs.size(),
         " outputs; pass and receive them as spans");
  }
  return p.run({&input, 1}, stream, limits)[0];
}

void Plan::run(std::initializer_list<NamedTensor> inputs, void* stream, const Limits& limits) {
  Impl& p = impl();
  const Impl::Busy busy(p);
  for (Tensor& slot : p.named_inputs) slot = Tensor();
  for (const auto& [name, tensor] : inputs) {
    const auto found = std::find(p.input_names.begin(), p.input_names.end(), name);
    if (found == p.input_names.end())
      fail("run: the graph has no input \"", name, '"', detail::nearest_text(name, p.input_names));
    Tensor& slot = p.named_inputs[static_cast<std::size_t>(found - p.input_names.begin())];
    if (slot.defined()) fail("run: input \"", name, "\" was given twice");
    slot = tensor;
  }
  for (std::size_t i = 0; i < p.named_inputs.size(); ++i) {
    if (!p.named_inputs[i].defined())
      fail("run: input \"", p.input_names[i], "\" is missing; expected all of ", p.input_names.size());
  }
  (void)p.run(p.named_inputs, stream, limits);
}

void Plan::run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream, const Limits& limits) {
  const Impl::Busy busy(impl());
  impl_->run_into(inputs, outputs, stream, limits);
}

void Plan::Impl::run_into(std::span<const Tensor> tensors, std::span<Tensor> targets, void* stream,
                          const Limits& asked) {
  begin(asked);
  const Device device = options.device;
  if (targets.size() != outputs.size()) fail("run_into: expected ", outputs.size(), " outputs, got ", targets.size());
  const std::int64_t images = images_of(tensors);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (outputs[i].counted()) fail(outputs[i].name, ": a run decides how large it is; expected run, got run_into");
    require_fits(targets[i], outputs[i], images, device);
    for (std::size_t j = 0; j < inputs.size(); ++j)
      require_apart(targets[i], outputs[i].name, tensors[j], inputs[j].name);
    for (std::size_t j = 0; j < i; ++j) require_apart(targets[i], outputs[i].name, targets[j], outputs[j].name);
  }
  bind_inputs(tensors, images, stream);
  const auto computed_in_place = [&](std::size_t i) {
    return outputs[i].bindable && images == options.batch && in_place(targets[i], device);
  };
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!outputs[i].bindable) continue;
    const std::size_t buffer = outputs[i].buffer;
    bind(buffer, computed_in_place(i) ? targets[i] : buffers[buffer].home);
  }
  enqueue(stream);
  bool wait = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    results[i] = result(outputs[i], images);
    if (computed_in_place(i)) continue;
    if (device.is_cpu()) {
      targets[i].copy_from(results[i]);
    } else if (targets[i].device().is_cpu()) {
      cuda::download(device.index, targets[i].raw(), results[i].raw(), targets[i].bytes(), stream);
      wait = true;
    } else {
      cuda::copy_on_device(device.index, targets[i].raw(), results[i].raw(), targets[i].bytes(), stream);
    }
  }
  if (!wait) return;
  cuda::synchronize(device.index, stream);
  check_run();
}

std::span<const std::string> Plan::input_names() const { return impl().input_names; }
std::span<const std::string> Plan::output_names() const { return impl().output_names; }
std::span<const Shape> Plan::input_shapes() const { return impl().input_shapes; }
std::span<const DType> Plan::input_dtypes() const { return impl().input_dtypes; }
std::span<const Shape> Plan::output_shapes() const { return impl().output_shapes; }
std::span<const DType> Plan::output_dtypes() const { return impl().output_dtypes; }

bool Plan::counted() const { return std::ranges::any_of(impl().outputs, &Impl::Port::counted); }

bool Plan::batched() const {
  const auto each = [](const Impl::Port& port) { return port.batched; };
  const Impl& p = impl();
  return std::ranges::all_of(p.inputs, each) && std::ranges::all_of(p.outputs, each);
}

Tensor Plan::output(std::string_view name) const {
  Impl& p = impl();
  const Impl::Busy busy(p);
  const auto& names = p.output_names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail("plan: there is no output \"", name, '"', detail::nearest_text(name, names));
  const Tensor& result = p.results[static_cast<std::size_t>(found - names.begin())];
  if (!result.defined()) fail("plan: output \"", name, "\" is there after the first run");
  return result;
}

Tensor Plan::activation(std::string_view name) const {
  Impl& p = impl();
  const Impl::Busy busy(p);
  if (!p.options.keep_all) fail("plan: compile with keep_all to read activations");
  for (const Impl::NodeOutput& node : p.kept) {
    if (node.name != name) continue;
    if (!p.buffers[node.buffer].bound.defined()) fail("plan: ", name, " is there after the first run");
    return p.view(node.buffer, node.shape, node.dtype);
  }
  std::vector<std::string> names;
  for (const Impl::NodeOutput& node : p.kept) names.push_back(node.name);
  fail("plan: there is no node \"", name, '"', detail::nearest_text(name, names));
}

const CompileOptions& Plan::options() const { return impl().options; }
PlanMemory Plan::memory() const { return impl().memory_now(); }

}  // namespace lamina
