#include "lamina/cuda/tensor_core/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cuda/tensor_core/scaled_rows.h"

namespace lamina::cuda {

FilterRange find_range(const float* weight, std::int64_t size, int& shift) {
  shift = 0;
  double total = 0;
  int smallest = std::numeric_limits<int>::max(), largest = std::numeric_limits<int>::min();
  for (std::int64_t i = 0; i < size; ++i) {
    if (!std::isfinite(weight[i])) return {};  // the result is not finite whatever the scale
    if (weight[i] == 0.0f) continue;
    total += std::abs(static_cast<double>(weight[i]));
    const int exponent = std::ilogb(weight[i]);
    smallest = std::min(smallest, exponent);
    largest = std::max(largest, exponent);
  }
  if (smallest > largest) return {};
  if (smallest < -100) shift = -100 - smallest;
  if (largest > 99) shift = 99 - largest;
  if (smallest + shift < -100 || largest + shift > 99) {
    shift = 0;
    return {.scale = std::numeric_limits<float>::quiet_NaN()};
  }
  // Subnormal inputs: what the product of two low words, below 2^-12 |w| * 2^-136, leaves out of the sum matters only
  // where the sum is below 2^-129 of all |w|; the rest is margin.
  return {.scale = std::ldexp(1.0f, -shift), .smallest = static_cast<float>(std::ldexp(total, -126))};
}

std::optional<int> shift_of_scaled(const float* weight, std::int64_t count) {
  float largest = 0.0f, sum = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(weight[i]);
    largest = magnitude > largest ? magnitude : largest;
    sum += weight[i] * 0.0f;  // NaN if one is not finite
  }
  if (sum != 0.0f) return {};
  if (largest == 0.0f) return 0;
  const int shift = 14 - std::ilogb(largest);
  if (shift < -26 || shift > 74) return {};
  const float least = std::ldexp(least_scaled, -shift);
  int lost = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(weight[i]);
    lost |= static_cast<int>(magnitude < least) & static_cast<int>(magnitude != 0.0f);
  }
  if (lost != 0) return {};
  return shift;
}

}  // namespace lamina::cuda
