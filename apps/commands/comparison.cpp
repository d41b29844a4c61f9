#include "commands/comparison.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lamina::app {
namespace {

double root_mean_square(std::span<const double> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  const std::span<const float> a = actual.values<float>();
  const std::span<const double> b = expected.values<double>();
  Comparison result;
  result.rms = root_mean_square(b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    // Equal infinities and NaN for NaN agree; any other non-finite difference fails the comparison below.
    const bool same = static_cast<double>(a[i]) == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same) continue;
    result.max_error = std::isnan(difference) ? difference : std::max(result.max_error, difference);
    if (difference <= tolerance.atol * result.rms + tolerance.rtol * std::abs(b[i])) continue;
    if (result.bad++ == 0) result.first_bad = static_cast<std::int64_t>(i);
  }
  return result;
}

}  // namespace lamina::app
