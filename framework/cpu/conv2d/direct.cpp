#include <algorithm>

#include "lamina/cpu/conv2d/conv2d.h"

namespace lamina::cpu {
namespace {

float output_at(const ConvGeometry& g, const Conv2dPointers& p, std::int64_t n, int oc, int oh, int ow) {
  const int first_channel = oc / g.group_out_channels() * g.group_in_channels();
  const float* image = p.input + (n * g.in_channels + first_channel) * g.in_pixels();
  const float* weight = p.weight + oc * g.reduction();
  double sum = p.bias != nullptr ? static_cast<double>(p.bias[oc]) : 0.0;
  for (int c = 0; c < g.group_in_channels(); ++c, image += g.in_pixels()) {
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      const int ih = oh * g.stride_height - g.padding_height + kh * g.dilation_height;
      const bool row_inside = ih >= 0 && ih < g.in_height;
      for (int kw = 0; kw < g.kernel_width; ++kw, ++weight) {
        const int iw = ow * g.stride_width - g.padding_width + kw * g.dilation_width;
        if (!row_inside || iw < 0 || iw >= g.in_width) continue;
        sum += static_cast<double>(*weight) * static_cast<double>(image[std::int64_t{ih} * g.in_width + iw]);
      }
    }
  }
  const auto value = static_cast<float>(sum);
  return p.relu && value < 0.0f ? 0.0f : value;
}

}  // namespace

void conv2d_direct(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool) {
  pool.parallel_for(g.batch * g.out_channels, [&](std::int64_t plane, int) {
    const std::int64_t n = plane / g.out_channels;
    const auto oc = static_cast<int>(plane % g.out_channels);
    float* out = p.output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) *out++ = output_at(g, p, n, oc, oh, ow);
    }
  });
}

}  // namespace lamina::cpu
