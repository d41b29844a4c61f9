#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lamina/kernel/problems.h"

namespace lamina::test {

/// What every element that a move writes reads, in the order in which the axes walk; -1 for the fill.
inline std::vector<std::int64_t> walked(const MoveProblem& problem) {
  std::vector<std::int64_t> places = {0};
  for (const MoveProblem::Axis& axis : problem.axes) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t from : places) {
      for (std::int64_t i = 0; i < axis.extent; ++i) {
        const std::int64_t step = axis.offsets.empty() ? i * axis.stride : axis.offsets[static_cast<std::size_t>(i)];
        longer.push_back(from < 0 || (!axis.offsets.empty() && step < 0) ? -1 : from + step);
      }
    }
    places = std::move(longer);
  }
  return places;
}

}  // namespace lamina::test
