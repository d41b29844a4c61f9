#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lamina/tensor/conv_geometry.h"

namespace lamina::test {

/// y* and Σ|w·x| + |b| for every output of a convolution: slow double-precision truth, and the scale against which
/// the precision contract (docs/precision.md) measures errors.
struct ConvReference {
  std::vector<double> value;  // [N, OC, OH, OW]
  std::vector<double> scale;  // [N, OC, OH, OW]
};

/// One output: image n, channel oc, row oh, column ow.
inline void reference_conv2d_at(const ConvGeometry& g, const float* x, const float* w, const float* bias,
                                std::int64_t n, int oc, int oh, int ow, double& value, double& scale) {
  const int group = oc / g.group_out_channels();
  value = bias != nullptr ? static_cast<double>(bias[oc]) : 0.0;
  scale = std::abs(value);
  for (int c = 0; c < g.group_in_channels(); ++c) {
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      for (int kw = 0; kw < g.kernel_width; ++kw) {
        const int ih = oh * g.stride_height - g.padding_height + kh * g.dilation_height;
        const int iw = ow * g.stride_width - g.padding_width + kw * g.dilation_width;
        if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
        const std::int64_t channel = n * g.in_channels + group * g.group_in_channels() + c;
        const double xv = x[(channel * g.in_height + ih) * g.in_width + iw];
        const double wv =
            w[((std::int64_t{oc} * g.group_in_channels() + c) * g.kernel_height + kh) * g.kernel_width + kw];
        value += wv * xv;
        scale += std::abs(wv * xv);
      }
    }
  }
}

inline ConvReference reference_conv2d(const ConvGeometry& g, const float* x, const float* w, const float* bias) {
  ConvReference result;
  result.value.resize(static_cast<std::size_t>(g.output_size()));
  result.scale.resize(result.value.size());
  std::size_t i = 0;
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (int oc = 0; oc < g.out_channels; ++oc) {
      for (int oh = 0; oh < g.out_height; ++oh) {
        for (int ow = 0; ow < g.out_width; ++ow, ++i) {
          reference_conv2d_at(g, x, w, bias, n, oc, oh, ow, result.value[i], result.scale[i]);
        }
      }
    }
  }
  return result;
}

/// The contract's bound for one output, as docs/precision.md gives it.
inline double error_bound(const ConvGeometry& g, Precision precision, double scale) {
  const double k = static_cast<double>(g.reduction());
  const double epsilon = precision == Precision::fp32   ? 3e-6
                         : precision == Precision::tf32 ? 1e-3
                         : precision == Precision::fp16 ? 2e-3
                                                        : 1e-2;
  return epsilon * scale * std::max(1.0, std::sqrt(k / 1024)) + 4 * k * 0x1p-126;
}

}  // namespace lamina::test
