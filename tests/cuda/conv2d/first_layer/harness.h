#pragma once

// What the tests of the Hopper convolution for few channels share: cases, a fixture for each precision and format of
// the output, and what the contract says of every output, stored in 16 bits or pooled.

#include "support/kernel_harness.h"

namespace lamina::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

inline ConvGeometry geometry(int batch, int height, int width, int filters, int kernel = 11, int stride = 4,
                             int padding = 2, int channels = 3) {
  return geometry_of(square(batch, channels, height, width, filters, kernel, stride, padding));
}

/// Any sign, any magnitude from 1e-18 to 1e18.
inline float wild(std::mt19937& random) {
  const float magnitude = std::pow(10.0f, std::uniform_real_distribution<float>(-18.0f, 18.0f)(random));
  return random() % 2 == 0 ? magnitude : -magnitude;
}

struct Kind {
  Precision precision;
  DType output;
  Layout layout = Layout::nchw;
  bool pooled = false;  // by windows of 3x3, stride 2, where the map is large enough
  Format input = {};
};

/// Max pooling of g's output as PyTorch does it.
inline PoolGeometry pool_geometry(const ConvGeometry& g, int kernel = 3, int stride = 2, int padding = 0,
                                  bool ceil = false) {
  PoolGeometry pool;
  pool.planes = g.batch * g.out_channels;
  pool.in_height = g.out_height, pool.in_width = g.out_width;
  pool.kernel_height = pool.kernel_width = kernel;
  pool.stride_height = pool.stride_width = stride;
  pool.padding_height = pool.padding_width = padding;
  const auto extent = [&](int in) {
    int out = (in + 2 * padding - kernel + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (out - 1) * stride >= in + padding) --out;
    return out;
  };
  pool.out_height = extent(g.out_height), pool.out_width = extent(g.out_width);
  return pool;
}

/// 16-bit outputs may add half a unit of their last place, and overflow to Inf.
inline void store_in(DType type, std::vector<Expected>& outputs) {
  const double last_place = type == DType::f16 ? 0x1p-11 : type == DType::bf16 ? 0x1p-8 : 0;
  const double tiny = type == DType::f16 ? 0x1p-25 : 0;
  const double largest = type == DType::f16 ? 65504 : 3.4028234e38;
  for (Expected& e : outputs) {
    e.bound += last_place * std::abs(e.value) + tiny;
    e.overflows = std::isfinite(e.value) && std::abs(e.value) > 0.99 * largest;
  }
}

/// The largest of a window is off by no more than the worst of it; NaN wins.
inline std::vector<Expected> pooled(const ConvGeometry& g, const PoolGeometry& pool, const std::vector<Expected>& map) {
  std::vector<Expected> result;
  for (std::int64_t plane = 0; plane < g.batch * g.out_channels; ++plane) {
    for (int oh = 0; oh < pool.out_height; ++oh) {
      for (int ow = 0; ow < pool.out_width; ++ow) {
        Expected most{-std::numeric_limits<double>::infinity(), 0, false};
        for (int i = 0; i < pool.kernel_height * pool.kernel_width; ++i) {
          const int ih = oh * pool.stride_height - pool.padding_height + i / pool.kernel_width;
          const int iw = ow * pool.stride_width - pool.padding_width + i % pool.kernel_width;
          if (ih < 0 || ih >= g.out_height || iw < 0 || iw >= g.out_width) continue;
          const Expected& e = map[static_cast<std::size_t>((plane * g.out_height + ih) * g.out_width + iw)];
          if (!(e.value <= most.value) && !std::isnan(most.value)) most.value = e.value;
          most.bound = std::max(most.bound, e.bound);
          most.overflows |= e.overflows;
        }
        result.push_back(most);
      }
    }
  }
  return result;
}

class Sm90 : public OnHopper, public testing::WithParamInterface<Kind> {
 protected:
  static KernelOptions options() {
    return {.kernel = "first_layer",
            .precision = GetParam().precision,
            .input = GetParam().input,
            .output = {GetParam().output, GetParam().layout}};
  }

  static KernelOptions options(const ConvGeometry& g) {
    KernelOptions o = options();
    if (GetParam().pooled) o.pool = pool_geometry(g);
    return o;
  }

  /// Every output against the contract.
  static void expect(const ConvGeometry& g, const ConvData& d, const KernelOptions& o, bool bias) {
    ASSERT_TRUE(takes(g, o)) << describe(g, o);
    std::vector<Expected> want = expected_outputs(g, o, reference_of(g, o.precision, d, bias));
    store_in(o.output.dtype, want);
    if (o.pool) want = pooled(g, *o.pool, want);
    expect_outputs(want, run(g, o, d, bias), describe(g, o));
  }

  static void expect(const ConvGeometry& g, const ConvData& d, bool relu = false, bool bias = true) {
    KernelOptions o = options(g);
    o.relu = relu;
    if (GetParam().pooled && !takes(g, o)) return;  // Pooling says what it must take
    expect(g, d, o, bias);
  }
};

}  // namespace lamina::test
