// The channels-last convolution computes what it takes, on every tile and however it is shared out.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::cuda {
namespace {

TEST_F(NhwcConv2d, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : nhwc_precisions) {
    double worst = 0;
    for (const Case& c : nhwc_cases) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && g.flops() > 3e7) continue;
      const Conv2dOptions options = options_for(precision, (seed & 1) != 0);
      ASSERT_TRUE(nhwc_conv2d_supports(g, options));
      worst = std::max(worst, expect_nhwc(g, options, draw(g, normal, normal, seed), (seed & 2) != 0));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(NhwcConv2d, EveryTileHoweverShared) {
  unsigned seed = 1000;
  for (const Precision precision : nhwc_precisions) {
    const auto count = static_cast<int>(channels_last::tiles(precision).size());
    for (const std::size_t i : {5u, 6u, 8u, 14u}) {
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      if (reduced() && i != 5u) continue;
      const Data data = rounded(draw(g, normal, normal, ++seed), precision);
      const ConvReference reference = reference_for(g, data, true);
      for (int tile = 0; tile < count; ++tile) {
        for (const NhwcChoice& choice :
             {NhwcChoice{tile, 1, 1}, {tile, 2, 1}, {tile, 4, 1}, {tile, 1, 2}, {tile, 1, 3}}) {
          const Conv2dOptions options = options_for(precision, (++seed & 1) != 0);
          if (channels_last::choose(g, options, choice)) expect_nhwc(g, options, data, true, reference, choice);
        }
      }
    }
  }
}

TEST_F(NhwcConv2d, SplitsUpToEight) {
  const ConvGeometry g = geometry_of(nhwc_cases[4]);
  for (const Precision precision : nhwc_precisions) {
    const Data data = draw(g, normal, normal, 5);
    for (int splits = 1; splits <= 8; ++splits) {
      expect_nhwc(g, options_for(precision), data, true, {.tile = 1, .multicast = 1, .splits = splits});
      if (reduced()) break;
    }
  }
}

TEST_F(NhwcConv2d, GivesF32From16Bits) {
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    for (const std::size_t i : {2u, 5u, 14u, 15u}) {
      if (reduced() && i != 5u) continue;
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      Conv2dOptions options = options_for(precision, true);
      options.output = DType::f32;
      const Data data = draw(g, normal, normal, 7);
      expect_nhwc(g, options, data, true);
      expect_nhwc(g, options, data, true, {.tile = 5, .multicast = 1, .splits = 2});
      expect_nhwc(g, options, data, true, {.tile = 16, .multicast = 2, .splits = 1});
    }
  }
}

}  // namespace
}  // namespace lamina::cuda
