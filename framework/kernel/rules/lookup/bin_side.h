#pragma once

#include <cmath>
#include <cstdint>

#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/host_device.h"

namespace lamina::detail {

/// NaN if one of them is.
LAMINA_HOST_DEVICE inline float larger(float a, float b) { return a > b || a != a ? a : b; }

/// What lies along one dimension of a box: bins of so many samples each.
struct BinSide {
  float begin, bin, grid;
  std::int64_t extent;

  LAMINA_HOST_DEVICE BinSide(float from, float to, const Bins& how, std::int64_t bins, std::int64_t pixels)
      : extent(pixels) {
    const float offset = how.half_pixel ? 0.5F : 0.0F;
    begin = from * how.spatial_scale - offset;
    const float length = to * how.spatial_scale - offset - begin;
    bin = (!how.half_pixel && length < 1.0F ? 1.0F : length) / static_cast<float>(bins);
    grid = how.sampling_ratio > 0 ? static_cast<float>(how.sampling_ratio) : std::ceil(bin);
    const bool numbers = grid > 0 && std::isfinite(begin) && std::isfinite(bin);
    grid = !numbers ? 0 : grid < 1e9F ? grid : 1e9F;  // of what is no number there are none
  }

  /// Calls use(low, high, how much of high) for the samples of a bin that are inside, and says how many those are.
  template <class Use>
  LAMINA_HOST_DEVICE float each(std::int64_t number, const Use& use) const {
    const float first = begin + static_cast<float>(number) * bin;
    auto i = std::int64_t{0}, end = static_cast<std::int64_t>(grid);
    if (grid > 1000) {  // of a box much larger than the picture nobody waits for the samples that are outside
      const auto sample = [&](double at) { return std::fmin(std::fmax((at - first) / bin * grid, -3.0), 2e9); };
      const auto from = static_cast<std::int64_t>(sample(-1)) - 2,
                 to = static_cast<std::int64_t>(sample(static_cast<double>(extent))) + 3;
      i = from > 0 ? from : 0, end = to < end ? to : end;
    }
    float inside = 0;
    for (; i < end; ++i) {
      float at = first + (static_cast<float>(i) + 0.5F) * bin / grid;
      if (!(at >= -1 && at <= static_cast<float>(extent))) continue;
      at = at > 0 ? at : 0;
      const std::int64_t last = extent - 1;
      std::int64_t low = static_cast<std::int64_t>(at);
      low = low < last ? low : last;
      const std::int64_t high = low < last ? low + 1 : last;
      use(low, high, low == high ? 0.0F : at - static_cast<float>(low));
      ++inside;
    }
    return inside;
  }
};

}  // namespace lamina::detail
