#pragma once

#include <lamina/lamina.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lamina::app {

/// Of a tensor's finite elements; the others are counted.
struct Statistics {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  std::int64_t finite = 0, odd = 0;

  double mean() const { return sum / static_cast<double>(finite); }
  /// "min, max, mean"
  std::vector<std::string> cells() const;
};

/// Nothing of a type that is only listed.
std::optional<Statistics> statistics(const Weights& weights, const TensorInfo& info);

/// A line for each tensor of a file, and their sum.
void print_tensors(const Weights& weights);

}  // namespace lamina::app
