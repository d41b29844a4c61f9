// Plan::profile: the time that each step takes.

#include <algorithm>
#include <chrono>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/plan/plan_impl.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;

/// Marks points in time: on the host's clock, or in a GPU's stream.
class Marks {
 public:
  Marks(Device device, std::size_t count) : times_(device.is_cpu() ? count : 0) {
    if (device.is_cuda()) {
      for (std::size_t i = 0; i < count; ++i) events_.emplace_back(device.index);
    }
  }

  void mark(std::size_t i) {
    if (events_.empty()) {
      times_[i] = Clock::now();
    } else {
      events_[i].record(nullptr);
    }
  }

  /// Milliseconds between marks i and i + 1.
  double between(std::size_t i) const {
    if (events_.empty()) return std::chrono::duration<double, std::milli>(times_[i + 1] - times_[i]).count();
    return static_cast<double>(cuda::Event::milliseconds(events_[i], events_[i + 1]));
  }

 private:
  std::vector<Clock::time_point> times_;
  std::vector<cuda::Event> events_;
};

}  // namespace

std::vector<StepTime> Plan::profile(std::span<const Tensor> inputs, int runs) {
  if (runs < 1) detail::fail("profile: expected 1 run or more, got ", runs);
  Impl& p = impl();
  const Impl::Busy busy(p);
  for (const Impl::Port& output : p.outputs) {
    if (output.bindable) p.bind(output.buffer, p.buffers[output.buffer].home);
  }
  const std::size_t steps = p.steps.size();
  Marks marks(p.options.device, steps + 1);
  const ThreadPool::Turn turn(*p.pool);
  const Execution execution = p.execution(nullptr);
  std::vector<std::vector<double>> samples(steps);
  for (int run = -1; run < runs; ++run) {  // one more than asked for, to warm up
    // Uploads the inputs anew: activations of the run before may have overwritten them.
    p.bind_inputs(inputs, p.images_of(inputs), nullptr);
    marks.mark(0);
    for (std::size_t i = 0; i < steps; ++i) {
      detail::at_node(p.steps[i].name, [&] { p.steps[i].op->run(p.steps[i].inputs, p.steps[i].outputs, execution); });
      marks.mark(i + 1);
    }
    if (p.options.device.is_cuda()) cuda::synchronize(p.options.device.index, nullptr);
    for (std::size_t i = 0; run >= 0 && i < steps; ++i) samples[i].push_back(marks.between(i));
  }
  std::vector<StepTime> result;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto middle = samples[i].begin() + runs / 2;
    std::nth_element(samples[i].begin(), middle, samples[i].end());
    const Impl::Step& step = p.steps[i];
    result.push_back({.name = step.name,
                      .fused = step.fused,
                      .kernel = step.op->description(),
                      .milliseconds = *middle,
                      .flops = step.flops,
                      .bytes = step.bytes});
  }
  return result;
}

}  // namespace lamina
