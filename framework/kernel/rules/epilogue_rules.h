#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "lamina/kernel/preparation.h"

namespace lamina::detail {

/// Whether what an epilogue adds, inputs `first` and up, lies in memory as the output does.
inline bool operands_fit(const Preparation& p, std::ptrdiff_t first = 1) {
  const auto like_output = [&](const View& view) {
    const View& output = p.output();
    return view.shape == output.shape && view.format == output.format && view.channels == output.channels;
  };
  return std::all_of(p.inputs.begin() + first, p.inputs.end(), like_output);
}

/// Between which numbers a function leaves its operand, and NaN as it is.
struct Bounds {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  friend bool operator==(const Bounds&, const Bounds&) = default;
};

/// Of a ReLU or a clip to numbers; nothing of another function.
inline std::optional<Bounds> clamp_of(const PointwiseStep& step) {
  if (step.function == Pointwise::relu) return Bounds{.low = 0};
  if (step.function != Pointwise::clip || step.operand >= 0 || step.second >= 0 || !(step.a <= step.b)) return {};
  return Bounds{static_cast<float>(step.a), static_cast<float>(step.b)};
}

}  // namespace lamina::detail
