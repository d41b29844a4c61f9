#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/kernel/problems.h"

/// What pooling is, by the plain loops.
namespace lamina::test {

/// Output [oh, ow] of a plane [H, W].
inline float pooled(PoolKind kind, const PoolGeometry& g, const float* plane, int oh, int ow) {
  const bool covers = kind == PoolKind::adaptive;
  const auto first = [&](int o, int in, int out, int stride, int padding) {
    return covers ? o * in / out : o * stride - padding;
  };
  const auto taps = [&](int o, int in, int out, int kernel) {
    return covers ? ((o + 1) * in + out - 1) / out - o * in / out : kernel;
  };
  const int top = first(oh, g.in_height, g.out_height, g.stride_height, g.padding_height);
  const int left = first(ow, g.in_width, g.out_width, g.stride_width, g.padding_width);
  float largest = -std::numeric_limits<float>::infinity();
  double sum = 0;
  int seen = 0, cells = 0;  // those on the padding count, but none that ceil_mode lets a window reach beyond it
  for (int kh = 0; kh < taps(oh, g.in_height, g.out_height, g.kernel_height); ++kh) {
    for (int kw = 0; kw < taps(ow, g.in_width, g.out_width, g.kernel_width); ++kw) {
      const int ih = top + kh * g.dilation_height, iw = left + kw * g.dilation_width;
      cells += ih < g.in_height + g.padding_height && iw < g.in_width + g.padding_width ? 1 : 0;
      if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
      const float value = plane[ih * g.in_width + iw];
      if (std::isnan(value) || value > largest) largest = std::isnan(largest) ? largest : value;
      sum += static_cast<double>(value);
      ++seen;
    }
  }
  if (kind == PoolKind::largest) return largest;
  const int count = covers || !g.count_padding ? seen : cells;
  return seen == 0 ? 0.0f : static_cast<float>(sum / count);
}

}  // namespace lamina::test
