#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/precision.h"

/// The truth that every convolution kernel is measured against, by the tests and by `lamina bench`.
namespace lamina::cpu {

/// One output in double precision, and Σ|w·x| + |b|, the scale of the precision contract (docs/inside/precision.md).
struct ReferenceValue {
  double value = 0;
  double scale = 0;
};

/// The output of image n, channel oc, row oh, column ow, by the plain loops.
inline ReferenceValue conv2d_reference(const ConvGeometry& g,
                                       const float* x,     // [N, C, H, W]
                                       const float* w,     // [OC, C / groups, KH, KW]
                                       const float* bias,  // [OC], or null
                                       std::int64_t n, int oc, int oh, int ow) {
  ReferenceValue result;
  result.value = bias != nullptr ? static_cast<double>(bias[oc]) : 0.0;
  result.scale = std::abs(result.value);
  const std::int64_t first_channel =
      n * g.in_channels + std::int64_t{oc / g.group_out_channels()} * g.group_in_channels();
  const float* weight = w + oc * g.reduction();
  for (int c = 0; c < g.group_in_channels(); ++c) {
    const float* channel = x + (first_channel + c) * g.in_pixels();
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      for (int kw = 0; kw < g.kernel_width; ++kw, ++weight) {
        const int ih = oh * g.stride_height - g.padding_height + kh * g.dilation_height;
        const int iw = ow * g.stride_width - g.padding_width + kw * g.dilation_width;
        if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
        const double product =
            static_cast<double>(*weight) * static_cast<double>(channel[std::int64_t{ih} * g.in_width + iw]);
        result.value += product;
        result.scale += std::abs(product);
      }
    }
  }
  return result;
}

/// The largest error that the contract allows for an output over K terms.
inline double error_bound(Precision precision, std::int64_t terms, double scale) {
  const auto k = static_cast<double>(terms);
  return row_of(precision).epsilon * scale * std::max(1.0, std::sqrt(k / 1024)) + 4 * k * 0x1p-126;
}

}  // namespace lamina::cpu
