// The depthwise convolution: every compiled kernel, any geometry, hard values, chains.

#include "cuda/conv2d/family.h"

namespace lamina::test::depthwise_test {
namespace {

class Depthwise : public OnCuda {};

KernelOptions options_for(Precision precision, bool relu = false, const PointwiseChain& chain = {}) {
  return channels_last_options("depthwise", precision, relu, chain);
}

const std::vector<Case> cases = {
    conv("4x5x5 -> 4, k 3, p 1, g 4"),
    conv("n2 32x17x19 -> 32, k 3, p 1, g 32"),
    conv("72x14x14 -> 72, k 5, p 2, g 72"),
    conv("n2 72x28x27 -> 72, k 5, s 2, p 2, g 72"),
    conv("96x15x16 -> 96, k 3, s 2, p 1, g 96"),
    conv("n3 240x7x7 -> 240, k 5, p 2, g 240"),
    conv("64x13x30 -> 64, k 7, p 3, g 64"),
    conv("40x21x9 -> 40, k 7, s 2, p 3, g 40"),
    conv("n2 58x9x10 -> 58, k 3, p 1, g 58"),
    conv("n2 58x10x9 -> 58, k 3, s 2, p 1, g 58"),
    conv("6x9x9 -> 6, k 5, p 2, g 6"),
    conv("10x9x9 -> 10, k 5, s 2, p 2, g 10"),
    conv("7x9x8 -> 7, k 3, p 1, g 7"),
    conv("12x33x2 -> 12, k 3, p 1, g 12"),
    conv("20x6x6 -> 20, k 3, g 20"),
    conv("8x3x3 -> 8, k 3, s 2, p 7, g 8"),
    conv("24x40x41 -> 24, k 5, s 3, p 4, d 2, g 24"),
    conv("16x20x20 -> 16, k 3, p 2, d 2, g 16"),
    conv("4x40x40 -> 4, k 31, p 15, g 4"),
    conv("200x1x1 -> 200, k 3, p 1, g 200"),
    conv("1x12x12 -> 1, k 3, p 1"),
    conv("132x70x5 -> 132, k 3, p 1, g 132"),
    conv("n2 12x11x23 -> 12, k 1x7, p 0x3, g 12"),
    conv("n2 36x12x9 -> 36, k 3, s 2x1, p 1, g 36"),
};

TEST_F(Depthwise, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      KernelOptions options = options_for(precision, (seed & 1) != 0);
      ASSERT_TRUE(takes(g, options)) << describe(g);
      const ConvData data = draw(g, normal, normal, seed);
      for (const int rows : {1, 2}) {
        options.tuning.outputs = rows;
        expect_contract(g, options, data, (seed & 2) != 0);
      }
      ++seed;
    }
  }
}

TEST_F(Depthwise, Chains) {
  unsigned seed = 300;
  for (const Precision precision : precisions) {
    for (const PointwiseChain& chain : chains) {
      for (const std::size_t i : {1u, 2u, 8u, 12u, 17u}) {
        const ConvGeometry g = geometry_of(cases[i]);
        KernelOptions options = options_for(precision, false, chain);
        options.tuning.outputs = static_cast<int>(seed % 2) + 1;
        expect_contract(g, options, draw(g, normal, normal, ++seed), true);
      }
    }
  }
}

TEST_F(Depthwise, HardValues) {
  unsigned seed = 400;
  for (const std::size_t i : {1u, 2u, 12u}) {
    const ConvGeometry g = geometry_of(cases[i]);
    for (const auto& [x, w] : awkward_values) {
      expect_contract(g, options_for(Precision::fp32), draw(g, x, w, ++seed), false);
    }
    for (const Precision precision : precisions) {
      expect_contract(g, options_for(precision, true), draw_not_finite(g, ++seed), true);
    }
  }
}

/// Rows of outputs that a thread has, which follow the batch.
TEST_F(Depthwise, RowsOfAThreadChangeNoBit) {
  unsigned seed = 600;
  for (const Precision precision : precisions) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, ++seed);
      KernelOptions one = options_for(precision), two = one;
      one.tuning.outputs = 1, two.tuning.outputs = 2;
      EXPECT_EQ(run_bytes(g, one, data, true), run_bytes(g, two, data, true)) << describe(g, one);
    }
  }
}

TEST_F(Depthwise, ANeighbourInTheBatchChangesNoBit) {
  Case c = cases[2];
  c.batch = 5;
  for (const Precision precision : precisions) expect_bits_of_images_alone(c, options_for(precision), 500);
}

TEST_F(Depthwise, NothingElse) {
  const ConvGeometry g = geometry_of(cases[1]);
  KernelOptions options = options_for(Precision::fp16);
  options.output = {DType::f16, Layout::nchw};
  EXPECT_FALSE(takes(g, options));
  Case c = cases[1];
  c.groups = 16;
  EXPECT_FALSE(takes(geometry_of(c), options_for(Precision::fp16)));
}

}  // namespace
}  // namespace lamina::test::depthwise_test
