// The channels-last convolution on values that are hard to sum, or no numbers.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test::values_test {
namespace {

// A product with one weight of 1 gives the operand itself: exact in TF32, and rounded to nearest if it was not.
TEST_F(ChannelsLast, Tf32OperandsAreRoundedToNearest) {
  const ConvGeometry g = geometry_of(conv("32x40x40 -> 32"));
  ConvData data = draw(g, normal, normal, 3);
  for (std::size_t i = 0; i < data.w.size(); ++i) data.w[i] = i / 32 == i % 32 ? 1.0f : 0.0f;
  const auto y = run(g, options_for(Precision::tf32), data, false);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float nearest = std::bit_cast<float>(cuda::round_to_tf32(std::bit_cast<std::uint32_t>(data.x[i])));
    // Ties may go either way.
    ASSERT_LE(std::abs(y[i] - data.x[i]), std::abs(nearest - data.x[i]))
        << i << ": " << data.x[i] << " became " << y[i];
  }
}

TEST_F(ChannelsLast, NanAndInfReachTheirWindowsAlone) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  for (const Precision precision : precisions) {
    const int tile = precision == Precision::fp32 ? 3 : 5;
    for (const auto& [multicast, splits] : {std::pair{1, 1}, {2, 1}, {1, 3}}) {
      const KernelOptions options =
          options_for(precision, true, {.tile = tile, .splits = splits, .multicast = multicast});
      expect_contract(g, options, draw_not_finite(g, 11), true);
    }
  }
}

TEST_F(ChannelsLast, Overflow) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    for (const int splits : {1, 2}) {
      expect_infinity(g, options_for(precision, false, {.splits = splits, .multicast = 1}), draw_overflow(g, 13));
    }
  }
}

TEST_F(ChannelsLast, Fp32HoldsOnAwkwardValues) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  unsigned seed = 70;
  for (const int splits : {1, 3}) {
    const KernelOptions options = options_for(Precision::fp32, false, {.splits = splits, .multicast = 1});
    for (const auto& [x, w] : awkward_values) {
      const double worst = expect_contract(g, options, draw(g, x, w, ++seed), false);
      RecordProperty("worst_" + std::to_string(seed), std::to_string(worst));
      if (reduced()) break;
    }
  }
}

}  // namespace
}  // namespace lamina::test::values_test
