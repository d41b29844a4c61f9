#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lamina::app {

/// Counters and histograms, written in Prometheus's text format.
class Metrics {
 public:
  /// Adds 1 to a counter; `labels` as they are written: model="digits".
  void count(const std::string& name, const std::string& labels);
  /// Adds an observation to a histogram of seconds, or of a count.
  void observe(const std::string& name, const std::string& labels, double value);
  std::string text() const;

 private:
  struct Histogram {
    std::vector<std::int64_t> counts;  // by bucket, the last without a bound
    double sum = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::int64_t>> counters_;
  std::map<std::string, std::map<std::string, Histogram>> histograms_;
};

}  // namespace lamina::app
