#include "lamina/cpu/conv2d/conv2d.h"
#include "lamina/cpu/reference.h"

namespace lamina::cpu {

void conv2d_direct(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool) {
  pool.parallel_for(g.batch * g.out_channels, [&](std::int64_t plane, int) {
    const std::int64_t n = plane / g.out_channels;
    const auto oc = static_cast<int>(plane % g.out_channels);
    float* out = p.output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        const auto value = static_cast<float>(conv2d_reference(g, p.input, p.weight, p.bias, n, oc, oh, ow).value);
        *out++ = p.relu && value < 0.0f ? 0.0f : value;
      }
    }
  });
}

}  // namespace lamina::cpu
