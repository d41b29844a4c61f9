#pragma once

#include <vector>

#include "lamina/cpu/reference.h"

namespace lamina::test {

/// y* and Σ|w·x| + |b| for every output of a convolution: slow double-precision truth.
struct ConvReference {
  std::vector<double> value;  // [N, OC, OH, OW]
  std::vector<double> scale;  // [N, OC, OH, OW]
};

inline ConvReference reference_conv2d(const ConvGeometry& g, const float* x, const float* w, const float* bias) {
  ConvReference result;
  result.value.reserve(static_cast<std::size_t>(g.output_size()));
  result.scale.reserve(static_cast<std::size_t>(g.output_size()));
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (int oc = 0; oc < g.out_channels; ++oc) {
      for (int oh = 0; oh < g.out_height; ++oh) {
        for (int ow = 0; ow < g.out_width; ++ow) {
          const auto [value, scale] = cpu::conv2d_reference(g, x, w, bias, n, oc, oh, ow);
          result.value.push_back(value);
          result.scale.push_back(scale);
        }
      }
    }
  }
  return result;
}

inline void reference_conv2d_at(const ConvGeometry& g, const float* x, const float* w, const float* bias,
                                std::int64_t n, int oc, int oh, int ow, double& value, double& scale) {
  const cpu::ReferenceValue result = cpu::conv2d_reference(g, x, w, bias, n, oc, oh, ow);
  value = result.value;
  scale = result.scale;
}

/// The contract's bound for one output, as docs/inside/precision.md gives it.
inline double error_bound(const ConvGeometry& g, Precision precision, double scale) {
  return cpu::error_bound(precision, g.reduction(), scale);
}

}  // namespace lamina::test
