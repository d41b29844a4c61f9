#pragma once

#include <span>
#include <vector>

#include "lamina/quantize/draft.h"
#include "lamina/quantize/quantizer.h"

namespace lamina::detail {

/// What a value was on the samples.
struct Observed {
  float low = 0, high = 0;        ///< that its levels are to reach over; 0 is between them
  std::vector<float> most = {};   ///< of each channel, the largest magnitude
  std::vector<float> means = {};  ///< of each channel
};

/// By item; of those marked alone. Throws Error for numbers that are none.
std::vector<Observed> observe(const Draft& draft, const std::vector<bool>& marked, std::span<const Tensor> samples,
                              const QuantizeOptions& options);

/// 256 levels from low to high, of which one is 0.
Quantization levels_over(const Observed& observed);

/// Products, and what passes factors of their channels on: what has to be observed for the following.
std::vector<bool> computed_by_products(const Draft& draft);

/// Brings the channels of values between products to ranges alike: what computes a channel is divided by a number that
/// those who read it multiply by. Returns the groups of channels that changed.
std::size_t equalize(Draft& draft, const std::vector<Observed>& observed);

}  // namespace lamina::detail
