// The convolution on mma.sync: any channels, groups and geometry, on every tile; hard values; chains.

#include "cuda/conv2d/family.h"
#include "lamina/cuda/conv2d/mma/resident/choice.h"

namespace lamina::test::resident_test {
namespace {

class Mma : public OnAmpere {};

KernelOptions options_for(Precision precision, bool relu = false, const PointwiseChain& chain = {},
                          const Tuning& tuning = {}) {
  return channels_last_options("mma", precision, relu, chain, tuning);
}

const std::vector<Case> cases = {
    conv("n2 128x17x19 -> 128, k 3, p 1, g 32"),  // ResNeXt
    conv("256x28x28 -> 256, k 3, p 1, g 32"),
    conv("512x14x15 -> 512, k 3, p 1, g 32"),
    conv("n2 256x7x7 -> 256, k 3, p 1, g 8"),
    conv("256x29x28 -> 256, k 3, s 2, p 1, g 32"),
    conv("120x15x14 -> 120, k 3, p 1, g 5"),  // RegNet
    conv("168x9x9 -> 168, k 3, s 2, p 1, g 3"),
    conv("192x9x11 -> 192, k 3, p 1, g 3"),
    conv("160x8x8 -> 160, k 3, p 1, g 2"),
    conv("n2 60x8x9 -> 180, g 3"),        // ShuffleNet
    conv("35x9x8 -> 21, k 3, p 1, g 7"),  // what divides by nothing
    conv("6x9x8 -> 140, k 3, p 1, g 2"),
    conv("48x9x8 -> 48, k 5, p 2, g 4"),
    conv("9x12x12 -> 27, k 3, p 1, g 9"),  // depthwise with a multiplier
    conv("37x12x12 -> 37, k 3, p 1, g 37"),
    conv("256x6x7 -> 272, k 3, p 1, g 2"),
    conv("n2 58x14x14 -> 58"),  // dense
    conv("n3 232x7x7 -> 232"),
    conv("n2 3x31x33 -> 32, k 3, s 2, p 1"),
    conv("3x40x38 -> 64, k 7, s 2, p 3"),
    conv("30x20x21 -> 100, k 3, p 1"),
    conv("200x9x9 -> 130, k 3, p 1"),
    conv("64x14x14 -> 64, s 2"),
    conv("n37 136x1x1 -> 10"),
    conv("n3 10x1x1 -> 240"),
    conv("n259 33x1x1 -> 17"),
    conv("7x5x5 -> 1, k 3, p 1"),
    conv("n2 17x23x29 -> 21, k 3x5, s 2x3, p 1x4, d 3x2"),
    conv("40x30x30 -> 24, k 3, p 12, d 12"),
    conv("16x40x40 -> 8, k 3, s 4, d 2"),
    conv("16x20x20 -> 8, k 2, s 6x5"),
    conv("8x9x9 -> 8, k 3, s 2, p 7, d 3"),
    conv("4x1x300 -> 8, k 1x129, p 0x64"),
    conv("2x30x30 -> 5, k 15x13, p 7x6"),
};

TEST_F(Mma, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    double worst = 0;
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      const KernelOptions options = options_for(precision, (seed & 1) != 0);
      ASSERT_TRUE(takes(g, options)) << describe(g);
      worst = std::max(worst, expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(Mma, EveryTile) {
  unsigned seed = 1000;
  for (const Precision precision : precisions) {
    for (std::size_t tile = 0; tile < cuda::mma::resident::tiles_of(precision).size(); ++tile) {
      for (const std::size_t i : {0u, 3u, 4u, 5u, 6u, 9u, 10u, 13u, 16u, 21u, 27u}) {
        const ConvGeometry g = geometry_of(cases[i]);
        const KernelOptions options = options_for(precision, false, {}, {.tile = static_cast<int>(tile)});
        if (!takes(g, options)) continue;
        expect_contract(g, options, draw(g, normal, normal, ++seed), true);
      }
    }
  }
}

TEST_F(Mma, Chains) {
  unsigned seed = 300;
  for (const Precision precision : precisions) {
    for (const PointwiseChain& chain : chains) {
      for (const std::size_t i : {0u, 3u, 10u, 16u, 21u}) {
        const ConvGeometry g = geometry_of(cases[i]);
        expect_contract(g, options_for(precision, false, chain), draw(g, normal, normal, ++seed), true);
      }
    }
  }
}

// Zeros off the diagonal of a bundle meet the values of its other groups.
TEST_F(Mma, NanAndInfReachTheirGroupsAndWindowsAlone) {
  unsigned seed = 400;
  for (const Precision precision : precisions) {
    for (const std::size_t i : {0u, 2u, 4u, 5u, 10u, 14u, 16u, 20u}) {
      const ConvGeometry g = geometry_of(cases[i]);
      const KernelOptions options = options_for(precision, true, {{.function = Pointwise::add, .operand = 1}});
      expect_contract(g, options, draw_not_finite(g, ++seed), true);
    }
  }
}

TEST_F(Mma, Overflow) {
  const ConvGeometry g = geometry_of(cases[7]);
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    expect_infinity(g, options_for(precision), draw_overflow(g, 13));
  }
}

TEST_F(Mma, Fp32HoldsOnAwkwardValues) {
  unsigned seed = 70;
  for (const std::size_t i : {0u, 7u, 21u}) {
    const ConvGeometry g = geometry_of(cases[i]);
    for (const auto& [x, w] : awkward_values) {
      expect_contract(g, options_for(Precision::fp32), draw(g, x, w, ++seed), false);
    }
  }
}

TEST_F(Mma, ANeighbourInTheBatchChangesNoBit) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : {2u, 4u, 5u, 20u, 16u}) {
      Case c = cases[i];
      c.batch = 40;
      expect_bits_of_images_alone(c, options_for(precision), 500);
    }
  }
}

}  // namespace
}  // namespace lamina::test::resident_test
