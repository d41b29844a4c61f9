// The channels-last convolution computes what it takes, on every tile and however it is shared out.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test::channels_last_test {
namespace {

TEST_F(ChannelsLast, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    double worst = 0;
    for (const Case& c : nhwc_cases) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && g.flops() > 3e7) continue;
      const KernelOptions options = options_for(precision, (seed & 1) != 0);
      ASSERT_TRUE(takes(g, options));
      worst = std::max(worst, expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(ChannelsLast, EveryTileHoweverShared) {
  unsigned seed = 1000;
  for (const Precision precision : precisions) {
    const auto count = static_cast<int>(cuda::channels_last::tiles(precision).size());
    for (const std::size_t i : {5u, 6u, 8u, 14u}) {
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      if (reduced() && i != 5u) continue;
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (int tile = 0; tile < count; ++tile) {
        for (const auto& [multicast, splits] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 3}}) {
          const KernelOptions options =
              options_for(precision, (++seed & 1) != 0, {.tile = tile, .splits = splits, .multicast = multicast});
          if (choice_of(g, options)) expect_contract(g, options, data, true, reference);
        }
      }
    }
  }
}

TEST_F(ChannelsLast, GroupsOfWholeStepsOnEveryTile) {
  unsigned seed = 3000;
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    const auto count = static_cast<int>(cuda::channels_last::tiles(precision).size());
    for (const Case& c : {conv("n3 128x9x11 -> 256, k 3, p 1, g 2"), conv("384x7x9 -> 192, k 3, s 2, p 1, g 3"),
                          conv("n2 128x8x8 -> 128, g 2")}) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      int tried = 0;
      for (int tile = 0; tile < count; ++tile) {
        if (reduced() && tried > 0) break;
        for (const auto& [multicast, splits] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
          const KernelOptions options =
              options_for(precision, (++seed & 1) != 0, {.tile = tile, .splits = splits, .multicast = multicast});
          if (!choice_of(g, options)) continue;
          ++tried, expect_contract(g, options, data, true, reference);
        }
      }
      EXPECT_GT(tried, 0) << describe(g, options_for(precision));
    }
  }
}

TEST_F(ChannelsLast, SplitsUpToEight) {
  const ConvGeometry g = geometry_of(nhwc_cases[4]);
  for (const Precision precision : precisions) {
    const ConvData data = draw(g, normal, normal, 5);
    for (int splits = 1; splits <= 8; ++splits) {
      expect_contract(g, options_for(precision, false, {.tile = 1, .splits = splits, .multicast = 1}), data, true);
      if (reduced()) break;
    }
  }
}

TEST_F(ChannelsLast, GivesF32From16Bits) {
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    for (const std::size_t i : {2u, 5u, 14u, 15u}) {
      if (reduced() && i != 5u) continue;
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      KernelOptions options = options_for(precision, true);
      options.output.dtype = DType::f32;
      const ConvData data = draw(g, normal, normal, 7);
      for (const Tuning& tuning :
           {Tuning{}, {.tile = 6, .splits = 2, .multicast = 1}, {.tile = 17, .splits = 1, .multicast = 2}}) {
        options.tuning = tuning;
        expect_contract(g, options, data, true);
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::channels_last_test
