#include "lamina/kernel/rules/live_window.h"

#include <algorithm>
#include <cstdint>

#include "lamina/base/math.h"

namespace lamina::detail {
namespace {

/// A window's taps along one side of the image.
struct Side {
  std::int64_t in, out, taps, stride, padding, dilation;

  /// Whether the tap is inside of the image for some output.
  bool is_live(std::int64_t tap) const {
    const std::int64_t before = padding - tap * dilation;  // of the image, for the first output
    const std::int64_t output = before > 0 ? ceil_div(before, stride) : 0;
    return output < out && output * stride - before < in;
  }
};

struct Part {
  int first = 0, taps = 0, padding = 0;
};

Part live_part(const Side& s) {
  std::int64_t before = 0, behind = 0;  // taps to be left out
  while (before < s.taps && !s.is_live(before)) ++before;
  if (before == s.taps) return {0, static_cast<int>(s.taps), static_cast<int>(s.padding)};
  while (!s.is_live(s.taps - 1 - behind)) ++behind;
  before = std::min(before, s.padding / s.dilation);
  // How far the last window could move on. The number of outputs is a matter of it, and of it alone.
  const auto room = [&] { return s.in + 2 * s.padding - s.dilation * (s.taps - 1 + before - behind) - 1; };
  while (room() >= s.out * s.stride) --behind;
  while (room() < (s.out - 1) * s.stride) --before;
  return {static_cast<int>(before), static_cast<int>(s.taps - before - behind),
          static_cast<int>(s.padding - before * s.dilation)};
}

}  // namespace

LiveWindow live_window(const ConvGeometry& g) {
  const Part rows =
      live_part({g.in_height, g.out_height, g.kernel_height, g.stride_height, g.padding_height, g.dilation_height});
  const Part columns =
      live_part({g.in_width, g.out_width, g.kernel_width, g.stride_width, g.padding_width, g.dilation_width});
  LiveWindow result = {g, rows.first, columns.first};
  ConvGeometry& part = result.geometry;
  part.kernel_height = rows.taps, part.kernel_width = columns.taps;
  part.padding_height = rows.padding, part.padding_width = columns.padding;
  return result;
}

Tensor live_weights(const LiveWindow& window, const Tensor& weight) {
  const Shape& s = weight.shape();
  const std::int64_t rows = window.geometry.kernel_height, columns = window.geometry.kernel_width;
  Tensor result({s[0], s[1], rows, columns});
  const float* from = weight.values<float>().data() + window.first_row * s[3] + window.first_column;
  float* to = result.values<float>().data();
  for (std::int64_t i = 0; i < s[0] * s[1]; ++i, from += s[2] * s[3]) {
    for (std::int64_t row = 0; row < rows; ++row, to += columns) std::copy_n(from + row * s[3], columns, to);
  }
  return result;
}

std::vector<SeenTaps> seen_columns(const ConvGeometry& g) {
  std::vector<SeenTaps> result;
  // Taps of a window that begin before a place, counted from its first; and columns until they are fewer.
  const auto taps_before = [&](std::int64_t place) {
    const auto taps = ceil_div(std::max<std::int64_t>(place, 0), std::int64_t{g.dilation_width});
    return static_cast<int>(std::min<std::int64_t>(taps, g.kernel_width));
  };
  const auto columns_with = [&](std::int64_t place, std::int64_t taps) {
    return taps == 0 ? g.out_width : ceil_div<std::int64_t>(place - (taps - 1) * g.dilation_width, g.stride_width);
  };
  for (int column = 0; column < g.out_width; column = result.back().end) {
    const std::int64_t before = g.padding_width - std::int64_t{column} * g.stride_width, behind = before + g.in_width;
    const int first = taps_before(before), last = taps_before(behind);
    const std::int64_t end = column + std::min(columns_with(before, first), columns_with(behind, last));
    result.push_back({column, static_cast<int>(std::min<std::int64_t>(end, g.out_width)), first, last});
  }
  return result;
}

SeenTaps seen_by_rows(const ConvGeometry& g, std::int64_t begin, std::int64_t end) {
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
