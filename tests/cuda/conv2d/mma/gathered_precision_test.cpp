// The implicit GEMM keeps the precision contract on data made to break it.

#include "cuda/conv2d/mma/harness.h"

namespace lamina::test::gathered_precision_test {
namespace {

class ImplicitGemmPrecision : public OnAmpere {};

const std::size_t contract_cases[] = {6, 9, 10, 11, 29, 34, 47, 48};

TEST_F(ImplicitGemmPrecision, OneSidedData) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      expect_contract(g, implicit(precision), draw(g, positive, positive, 11), true);
      // All products alike: every addition rounds the same way.
      expect_contract(g, implicit(precision), draw(g, constant(0.1f), constant(0.3f), 0), false);
      // The largest error of the split: what is left over is largest and has all bits set.
      for (const std::uint32_t bits : {0x3f800fffu, 0x3f801fffu}) {
        const float worst = std::bit_cast<float>(bits);
        expect_contract(g, implicit(precision), draw(g, constant(worst), constant(worst), 0), false);
      }
    }
  }
}

TEST_F(ImplicitGemmPrecision, CancellingData) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      ConvData data = draw(g, positive, positive, 13);
      for (std::size_t k = 1; k < data.w.size(); k += 2) data.w[k] = -data.w[k - 1];
      expect_contract(g, implicit(precision), data, true);
    }
  }
}

TEST_F(ImplicitGemmPrecision, MixedMagnitudes) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      expect_contract(g, implicit(precision), draw(g, mixed, mixed, 17), true);
      expect_contract(g, stored(precision), draw(g, mixed, mixed, 17), true);
      expect_contract(g, implicit(precision), draw(g, mixed, normal, 18), false);
      expect_contract(g, implicit(precision), draw(g, normal, mixed, 19), false);
    }
  }
}

TEST_F(ImplicitGemmPrecision, Fp32AtTheEndsOfTheRange) {
  const ConvGeometry g = geometry_of(gathered_cases[44]);
  for (const int splits : {1, 3}) {
    const auto expect = [&](const Draw& x, const Draw& w) {
      expect_contract(g, implicit(Precision::fp32, false, {.splits = splits}), draw(g, x, w, 23), false);
    };
    expect(scaled(normal, 1e-40f), scaled(normal, 1e20f));  // subnormal input
    expect(scaled(normal, 1e-36f), scaled(normal, 1e20f));  // its low word would be subnormal
    expect(scaled(normal, 1e20f), scaled(normal, 1e-40f));  // weights that decayed
    expect(scaled(normal, 1e20f), scaled(normal, 1e-36f));
    expect(scaled(normal, 1e30f), scaled(normal, 1e5f));
    expect(scaled(normal, 1e-5f), scaled(normal, 1e37f));
    // Weights that span more than the split can hold.
    expect(normal, [](std::mt19937& random) {
      return normal(random) * std::pow(10.0f, std::uniform_real_distribution<float>(-40, 30)(random));
    });
    const float largest = std::numeric_limits<float>::max();
    expect(constant(largest), scaled(normal, 1e-4f));
    expect(scaled(normal, 1e-4f), constant(largest));
  }
}

TEST_F(ImplicitGemmPrecision, Tf32KeepsFiniteValuesFinite) {
  const ConvGeometry g = geometry_of(gathered_cases[44]);
  const float largest = std::numeric_limits<float>::max();
  const Draw small = scaled(normal, 1e-4f);
  expect_contract(g, implicit(Precision::tf32), draw(g, constant(largest), small, 29), false);
  expect_contract(g, implicit(Precision::tf32), draw(g, small, constant(largest), 30), false);
}

TEST_F(ImplicitGemmPrecision, NonFiniteInputsReachExactlyTheirOutputs) {
  const float nans[] = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7fffffffu),
                        std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffc00000u)};
  // Among the weights are zeros and values without a low word, whose product with an Inf must stay right.
  const auto weights = [](std::mt19937& random) {
    const float choices[] = {0.0f, 0.5f, -2.0f, normal(random), normal(random)};
    return choices[random() % 5];
  };
  for (const Precision precision : precisions) {
    for (const std::size_t i : {2u, 6u, 9u, 23u, 29u, 34u, 36u, 38u, 43u}) {
      for (const int splits : {0, 3}) {
        const ConvGeometry g = geometry_of(gathered_cases[i]);
        ConvData data = draw(g, normal, weights, 31);
        std::mt19937 random(static_cast<unsigned>(i));
        for (int n = 0; n < 4; ++n) {
          data.x[random() % data.x.size()] = nans[n];
          data.x[random() % data.x.size()] = n % 2 == 0 ? infinity : -infinity;
        }
        expect_contract(g, implicit(precision, splits != 0, {.splits = splits}), data, true);
      }
    }
  }
}

TEST_F(ImplicitGemmPrecision, OverflowBecomesInfinity) {
  const ConvGeometry g = geometry_of(gathered_cases[44]);
  ConvData data = draw(g, positive, positive, 37);
  for (float& v : data.x) v = 1e30f;
  for (float& v : data.w) v = 1e30f;
  for (const Precision precision : precisions) {
    for (const float y : run(g, implicit(precision), data, false)) ASSERT_EQ(y, infinity);
  }
  data = draw(g, positive, positive, 38);
  for (float& v : data.x) v *= 30000;
  KernelOptions options = implicit(Precision::fp16);
  options.output = {DType::f16, Layout::nhwc};
  for (const float y : run(g, options, data, false)) ASSERT_EQ(y, infinity);
}

}  // namespace
}  // namespace lamina::test::gathered_precision_test
