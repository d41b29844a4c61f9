#include "plan.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/base/process/forks.h"
#include "result.h"

namespace lamina::python {
namespace {

using detail::fail;

/// A stream from its number (0 and 1 are the default one), from PyTorch's or CuPy's object, or from any with
/// `__cuda_stream__`.
cuda::Stream stream_from(nb::handle stream) {
  if (stream.is_none()) return nullptr;
  nb::object number = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) {
    number = stream.attr("__cuda_stream__")()[1];
  } else if (nb::hasattr(stream, "cuda_stream")) {
    number = stream.attr("cuda_stream");
  } else if (nb::hasattr(stream, "ptr")) {
    number = stream.attr("ptr");
  }
  std::intptr_t handle = 0;
  if (!nb::try_cast(number, handle, false)) {
    throw nb::type_error("stream: expected a number, a stream of PyTorch or CuPy, or an object with __cuda_stream__");
  }
  return handle == 0 || handle == 1 ? nullptr : reinterpret_cast<void*>(handle);
}

bool is_sequence(nb::handle object) { return nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::list>(object); }

/// The device of the first tensor that is on one; else the CPU.
Device device_of(std::span<const Tensor> tensors) {
  const auto found = std::ranges::find_if(tensors, [](const Tensor& t) { return t.device().is_cuda(); });
  return found == tensors.end() ? Device::cpu() : found->device();
}

/// Keeps an object of Python's, on any thread; null for None.
std::shared_ptr<const void> kept(nb::handle object) {
  if (object.is_none()) return nullptr;
  return {object.inc_ref().ptr(), [](PyObject* p) {
            const WithGil gil;
            if (gil.held()) Py_DECREF(p);
          }};
}

}  // namespace

std::vector<Tensor> tensors_of(std::span<const Lent> lent) {
  std::vector<Tensor> tensors;
  tensors.reserve(lent.size());
  for (const Lent& array : lent) tensors.push_back(array.tensor());
  return tensors;
}

std::vector<Lent> take_inputs(const Plan& plan, nb::handle inputs, cuda::Stream stream) {
  const std::span<const std::string> names = plan.input_names();
  std::vector<Lent> lent;
  lent.reserve(names.size());
  const auto take = [&](nb::handle array) {
    const std::size_t place = lent.size();
    lent.emplace_back(array, place < names.size() ? std::string_view(names[place]) : "run", Lent::Access::read, stream);
  };
  if (nb::isinstance<nb::dict>(inputs)) {
    const auto named = nb::borrow<nb::dict>(inputs);
    for (const nb::handle key : named.keys()) {
      const std::string name = nb::str(key).c_str();
      if (std::ranges::find(names, name) == names.end()) {
        fail("run: the graph has no input \"", name, '"', detail::nearest_text(name, names));
      }
    }
    for (const std::string& name : names) {
      if (!named.contains(name.c_str())) fail("run: input \"", name, "\" is missing");
      take(named[name.c_str()]);
    }
  } else if (is_sequence(inputs)) {
    for (const nb::handle array : inputs) take(array);
  } else {
    take(inputs);
  }
  return lent;
}

nb::object results_of(std::span<const Tensor> outputs, cuda::Stream stream,
                      const std::shared_ptr<const cuda::Event>& done, const std::shared_ptr<const void>& owner) {
  nb::list results;
  for (const Tensor& output : outputs) results.append(to_python(Result{output, stream, done, owner}));
  return results.size() == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
}

PyPlan::PyPlan(Plan plan) : plan_(std::make_unique<Plan>(std::move(plan))), generation_(detail::fork_generation()) {}

PyPlan::~PyPlan() {
  if (generation_ != detail::fork_generation()) {
    // Threads to wait for and memory to free are the parent's.
    (void)plan_.release();
    return;
  }
  for (const InFlight& run : in_flight_) {
    try {
      run.done->synchronize();
    } catch (const Error&) {  // what failed on the device was for the run's results to say
    }
  }
  in_flight_.clear();
}

Plan& PyPlan::plan() const {
  // Of a CPU the library says what the child lacks: the threads, if the plan has any.
  if (generation_ != detail::fork_generation() && plan_->options().device.is_cuda()) {
    fail("plan: compiled before this process was forked; compile it in the child, whose GPUs are its own");
  }
  return *plan_;
}

std::vector<Lent> PyPlan::take_outputs(nb::handle out, cuda::Stream stream) const {
  const std::span<const std::string> names = plan().output_names();
  std::vector<Lent> lent;
  lent.reserve(names.size());
  const auto take = [&](nb::handle array) {
    const std::size_t place = lent.size();
    lent.emplace_back(array, place < names.size() ? std::string_view(names[place]) : "out", Lent::Access::write,
                      stream);
  };
  if (is_sequence(out)) {
    for (const nb::handle array : out) take(array);
  } else {
    take(out);
  }
  return lent;
}

std::vector<Tensor> PyPlan::new_outputs(std::span<const Tensor> inputs, Device device) const {
  // Fewer images than the batch may be given, and come back; whether that holds for this plan is for run_into to say.
  const std::int64_t batch = plan().options().batch;
  std::int64_t images = batch;
  const std::span<const Shape> expected = plan().input_shapes();
  for (std::size_t i = 0; i < std::min(inputs.size(), expected.size()); ++i) {
    const Shape& shape = inputs[i].shape();
    const bool counts = shape.rank() > 0 && shape.rank() == expected[i].rank() && expected[i][0] == batch;
    if (counts && shape[0] >= 1) images = std::min(images, shape[0]);
  }
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < plan().output_shapes().size(); ++i) {
    Shape shape = plan().output_shapes()[i];
    if (images < batch && shape.rank() > 0 && shape[0] == batch) shape.set(0, images);
    outputs.emplace_back(shape, plan().output_dtypes()[i], device);
  }
  return outputs;
}

void PyPlan::follow(cuda::Stream stream) const {
  if (!in_flight_.empty() && in_flight_.back().stream != stream) in_flight_.back().done->hold(stream);
}

Limits limits_of(const std::stop_source* stop, std::optional<double> time) {
  constexpr double longest = 1e9;  // some thirty years
  if (time && !(*time >= 0)) fail("time: expected seconds, 0 or more, got ", *time);
  Limits limits = {.stop = stop == nullptr ? std::stop_token() : stop->get_token(), .time = {}};
  if (time && *time < longest) limits.time = std::chrono::nanoseconds(static_cast<std::int64_t>(*time * 1e9));
  return limits;
}

nb::object PyPlan::run(nb::handle inputs, nb::handle out, nb::handle stream_object, const std::stop_source* stop,
                       std::optional<double> time) {
  Plan& plan = this->plan();
  const cuda::Stream stream = stream_from(stream_object);
  std::vector<Lent> lent_inputs = take_inputs(plan, inputs, stream);
  const std::vector<Tensor> tensors = tensors_of(lent_inputs);
  std::vector<Lent> lent_outputs;
  if (!out.is_none()) lent_outputs = take_outputs(out, stream);
  std::vector<Tensor> targets = tensors_of(lent_outputs);
  const Device device = device_of(tensors);
  // Events cannot be asked while the caller records what runs: then the caller has to keep the arrays, too.
  const bool recording = device.is_cuda() && cuda::is_capturing(device.index, stream);
  if (recording && out.is_none()) fail("run: a run that is captured into a CUDA graph needs out=");
  if (!recording) follow(stream);
  std::shared_ptr<cuda::Event> done;
  Limits limits = limits_of(stop, time);
  const auto work = [&] {
    if (out.is_none() && plan.counted()) {
      for (const Tensor& result : plan.run(tensors, stream, limits)) targets.push_back(result.clone());
    } else {
      if (out.is_none()) targets = new_outputs(tensors, device);
      plan.run_into(tensors, targets, stream, limits);
    }
    if ((device.is_cuda() || device_of(targets).is_cuda()) && !recording) {
      done = std::make_shared<cuda::Event>(plan.options().device.index);
      done->record(stream);
    }
    return not_finite_.found(plan, targets);
  };
  // A GPU's work is enqueued and not waited for, and a thread for a run of microseconds would cost more than the run.
  const auto began = std::chrono::steady_clock::now();
  const std::string odd = slow_ && plan.options().device.is_cpu() ? interruptible(limits.stop, work) : [&] {
    const WithoutGil release;
    return work();
  }();
  slow_ = std::chrono::steady_clock::now() - began > std::chrono::milliseconds(20);
  if (!odd.empty()) NotFinite::warn(odd);
  const std::shared_ptr<const void> owner = done != nullptr ? kept(stream_object) : nullptr;
  if (done != nullptr) {
    while (!in_flight_.empty() && in_flight_.front().done->reached()) in_flight_.pop_front();
    std::ranges::move(lent_outputs, std::back_inserter(lent_inputs));
    in_flight_.push_back({done, stream, std::move(lent_inputs), owner});
  }
  if (!out.is_none()) return nb::borrow(out);
  return results_of(targets, stream, done, owner);
}

}  // namespace lamina::python
