#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/kernel/conv_geometry.h"

namespace lamina::detail {

/// Neighbouring outputs along one side of an image, [begin, end), and the taps of their windows that are inside of it,
/// [first_tap, last_tap).
struct SeenTaps {
  int begin = 0, end = 0;
  int first_tap = 0, last_tap = 0;

  int outputs() const { return end - begin; }
  int taps() const { return last_tap - first_tap; }
};

/// The columns of the output, from left to right, in runs that see the same taps of a row.
inline std::vector<SeenTaps> seen_columns(const ConvGeometry& g) {
  std::vector<SeenTaps> result;
  for (int column = 0; column < g.out_width; ++column) {
    const std::int64_t before = g.padding_width - std::int64_t{column} * g.stride_width;
    const auto taps_before = [&](std::int64_t place) {
      const auto taps = ceil_div(std::max<std::int64_t>(place, 0), std::int64_t{g.dilation_width});
      return static_cast<int>(std::min<std::int64_t>(taps, g.kernel_width));
    };
    const SeenTaps seen = {column, column + 1, taps_before(before), taps_before(before + g.in_width)};
    if (!result.empty() && result.back().first_tap == seen.first_tap && result.back().last_tap == seen.last_tap) {
      ++result.back().end;
    } else {
      result.push_back(seen);
    }
  }
  return result;
}

/// The taps of a column that some of the rows [begin, end) of the output see.
inline SeenTaps seen_by_rows(const ConvGeometry& g, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = begin * g.stride_height - g.padding_height;
  const std::int64_t last = (end - 1) * g.stride_height - g.padding_height;
  // The last row's window reaches the image from tap `low` on, the first row's leaves it at tap `high`.
  const std::int64_t low = last < 0 ? ceil_div(-last, std::int64_t{g.dilation_height}) : 0;
  const std::int64_t high = first < g.in_height ? (g.in_height - 1 - first) / g.dilation_height + 1 : 0;
  const auto low_tap = static_cast<int>(std::min<std::int64_t>(low, g.kernel_height));
  const auto high_tap = static_cast<int>(std::min<std::int64_t>(high, g.kernel_height));
  return {static_cast<int>(begin), static_cast<int>(end), low_tap, std::max(low_tap, high_tap)};
}

}  // namespace lamina::detail
