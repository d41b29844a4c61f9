#pragma once

// What the tests of the Hopper convolution for few channels share: cases, a fixture for each precision and format of
// the output, and what the contract says of every output, stored in 16 bits or pooled.

#include "cuda/conv2d/family.h"

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

class FirstLayer : public OnHopper, public testing::WithParamInterface<Kind> {
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
    if (o.pool) want = pooled(*o.pool, want);
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
