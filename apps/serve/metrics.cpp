#include "serve/metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

namespace lamina::app {
namespace {

constexpr double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};
constexpr double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

std::span<const double> bounds_of(const std::string& name) {
  if (name.ends_with("_seconds")) return seconds;
  return sizes;
}

}  // namespace

void Metrics::count(const std::string& name, const std::string& labels) {
  const std::scoped_lock lock(mutex_);
  ++counters_[name][labels];
}

void Metrics::observe(const std::string& name, const std::string& labels, double value) {
  const auto bounds = bounds_of(name);
  const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin());
  const std::scoped_lock lock(mutex_);
  Histogram& histogram = histograms_[name][labels];
  histogram.counts.resize(bounds.size() + 1);
  ++histogram.counts[bucket];
  histogram.sum += value;
}

std::string Metrics::text() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  for (const auto& [name, values] : counters_) {
    out += fmt::format("# TYPE {} counter\n", name);
    for (const auto& [labels, value] : values) out += fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  for (const auto& [name, values] : histograms_) {
    out += fmt::format("# TYPE {} histogram\n", name);
    const auto bounds = bounds_of(name);
    for (const auto& [labels, histogram] : values) {
      const std::string comma = labels.empty() ? "" : ",";
      std::int64_t total = 0;
      for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
        total += histogram.counts[i];
        const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
        out += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bound, total);
      }
      out += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, histogram.sum, total);
    }
  }
  return out;
}

}  // namespace lamina::app
