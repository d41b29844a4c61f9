// How a Plan runs its steps, and when it stops. On a GPU the steps are recorded into a CUDA graph, which is then
// launched with one call. Failures are thrown when results come to the host.

#include <algorithm>
#include <exception>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/plan/plan_impl.h"

namespace lamina {

Execution Plan::Impl::execution(void* stream) const {
  auto* const scratch = static_cast<std::byte*>(const_cast<void*>(workspace.raw()));
  return {.pool = pool.get(),
          .stream = stream,
          .workspace = scratch,
          .counters = scratch + (memory.workspace - counter_bytes)};
}

void detail::heed_stop(const std::stop_token& stop, std::string_view what) {
  if (stop.stop_requested()) throw Stopped(concat(what, ": stopped, as was asked for"));
}

void Plan::Impl::begin(const Limits& asked) {
  limits = asked;
  limited = asked.stop.stop_possible() || asked.time;
  if (asked.time) began = std::chrono::steady_clock::now();
}

void Plan::Impl::heed_limits() const {
  detail::heed_stop(limits.stop, "run");
  if (!limits.time || std::chrono::steady_clock::now() - began < *limits.time) return;
  const double seconds = std::chrono::duration<double>(*limits.time).count();
  throw Stopped(detail::concat("run: stopped, it took longer than ", seconds, " s"));
}

void Plan::Impl::run_steps(void* stream) {
  const ThreadPool::Turn turn(*pool);
  Execution execution = this->execution(stream);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    execution.neighbours = {.before = step.beside, .after = i + 1 < steps.size() && steps[i + 1].beside};
    if (limited && options.device.is_cpu()) heed_limits();
    const cuda::ProfilerRange range(step.name.c_str());
    if (faults.defined()) execution.fault = static_cast<Fault*>(faults.raw()) + i;
    detail::at_node(step.name, [&] { step.op->run(step.inputs, step.outputs, execution); });
  }
}

bool Plan::Impl::bound_as(const Recording& recording) const {
  std::size_t i = 0;
  if (recording.addresses.size() != inputs.size() + outputs.size()) return false;
  for (const auto* ports : {&inputs, &outputs}) {
    for (const Port& port : *ports) {
      if (buffers[port.buffer].bound.raw() != recording.addresses[i++]) return false;
    }
  }
  return true;
}

Plan::Impl::Recording& Plan::Impl::recording() {
  const auto match =
      std::find_if(recordings.begin(), recordings.end(), [&](const Recording& r) { return bound_as(r); });
  if (match != recordings.end()) return *match;
  Recording& oldest = *std::min_element(recordings.begin(), recordings.end(),
                                        [](const Recording& a, const Recording& b) { return a.used < b.used; });
  oldest.graph.reset();
  oldest.addresses.clear();
  for (const auto* ports : {&inputs, &outputs}) {
    for (const Port& port : *ports) oldest.addresses.push_back(buffers[port.buffer].bound.raw());
  }
  oldest.used = 0;
  return oldest;
}

void Plan::Impl::enqueue(void* stream) {
  if (limited) heed_limits();
  const int device = options.device.index;
  if (options.device.is_cpu() || !options.capture || cuda::is_capturing(device, stream)) return run_steps(stream);
  Recording& current = recording();
  const bool again = current.used > 0;
  current.used = ++runs;
  if (!again) return run_steps(stream);
  if (!current.graph) current.graph.emplace(device, [this](void* recorder) { run_steps(recorder); });
  current.graph->launch(stream);
}

void Plan::Impl::check_run() {
  std::exception_ptr first;  // later failures may be its consequences
  auto* const noted = static_cast<Fault*>(faults.raw());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    try {
      detail::at_node(steps[i].name, [&] {
        steps[i].op->check();
        if (noted[i].kind != Fault::none) detail::fail_by(std::exchange(noted[i], {}));
      });
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace lamina
