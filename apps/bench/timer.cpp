#include "bench/timer.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "lamina/cuda/runtime/stream.h"

namespace lamina::app {
namespace {

constexpr int warm_up = 3;
constexpr int fewest_samples = 5;

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Timing summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto quantile = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1))];
  };
  return {quantile(0.5), quantile(0.1), quantile(0.9), static_cast<int>(samples.size())};
}

/// Collects samples until the time is up.
template <class Sample>
Timing collect(double seconds, const Sample& sample) {
  for (int i = 0; i < warm_up; ++i) sample();
  std::vector<double> samples;
  const Clock::time_point start = Clock::now();
  while (static_cast<int>(samples.size()) < fewest_samples || milliseconds_since(start) < seconds * 1e3) {
    samples.push_back(sample());
  }
  return summarise(std::move(samples));
}

}  // namespace

Timing time_calls(Device device, int per_graph, double seconds, const std::function<void(int, void*)>& call) {
  int count = 0;
  if (device.is_cpu()) {
    return collect(seconds, [&] {
      const Clock::time_point start = Clock::now();
      call(count++, nullptr);
      return milliseconds_since(start);
    });
  }

  cuda::OwnedStream stream(device.index);
  cuda::Event before(device.index), after(device.index);
  const auto timed = [&](const auto& work) {
    before.record(stream.get());
    work();
    after.record(stream.get());
    return static_cast<double>(cuda::Event::milliseconds(before, after));
  };
  if (per_graph <= 1) {
    return collect(seconds, [&] { return timed([&] { call(count++, stream.get()); }); });
  }
  const cuda::CapturedGraph graph(device.index, [&](cuda::Stream recording) {
    for (int i = 0; i < per_graph; ++i) call(i, recording);
  });
  return collect(seconds, [&] { return timed([&] { graph.launch(stream.get()); }) / per_graph; });
}

}  // namespace lamina::app
