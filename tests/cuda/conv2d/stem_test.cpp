// First layers of 3x3 windows with stride 2: sizes that no tile divides, every instance, functions, hard values.

#include "cuda/conv2d/family.h"

namespace lamina::test::stem_test {
namespace {

class Stem : public OnAmpere {};

KernelOptions options_for(Precision precision, DType input, const PointwiseChain& chain = {}) {
  return {.kernel = "stem",
          .precision = precision,
          .input = {input, Layout::nchw},
          .output = {storage_type(precision), Layout::nhwc},
          .chain = chain};
}

const Case cases[] = {
    conv("n2 3x33x61 -> 32, k 3, s 2, p 1"), conv("3x64x64 -> 16, k 3, s 2, p 1"),
    conv("n3 1x7x5 -> 24, k 3, s 2, p 1"),   conv("4x12x300 -> 64, k 3, s 2, p 0x2"),
    conv("n2 2x3x3 -> 48, k 3, s 2"),        conv("3x1x1 -> 32, k 3, s 2, p 1"),
    conv("3x19x530 -> 16, k 3, s 2, p 3x0"), conv("n5 3x224x35 -> 32, k 3, s 2, p 1"),
};

TEST_F(Stem, EveryGeometryMeetsTheContract) {
  unsigned seed = 1;
  const PointwiseChain chains[] = {{},
                                   {{Pointwise::relu}},
                                   {{.function = Pointwise::clip, .a = 0, .b = 6}},
                                   {{Pointwise::silu}},
                                   {{Pointwise::hard_swish}}};
  for (const Precision precision : of_16_bits) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, ++seed);
      for (const bool biased : {false, true}) {
        const ConvReference reference = reference_of(g, precision, data, biased);
        for (const DType input : {DType::f32, storage_type(precision)}) {
          for (const PointwiseChain& chain : chains) {
            const KernelOptions options = options_for(precision, input, chain);
            ASSERT_TRUE(takes(g, options)) << describe(g);
            expect_contract(g, options, data, biased, reference);
          }
        }
      }
    }
  }
}

/// The fourth pixel of a step, and what lies behind the image's channels, meet weights that are not there.
TEST_F(Stem, WhatIsNotFiniteReachesItsWindowsAlone) {
  unsigned seed = 100;
  for (const Precision precision : of_16_bits) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      ConvData data = draw(g, normal, positive, ++seed);
      for (std::size_t i = 0; i < data.x.size(); i += 29) {
        data.x[i] = i % 3 == 0 ? infinity : i % 3 == 1 ? -infinity : std::nanf("");
      }
      expect_contract(g, options_for(precision, DType::f32), data, true);
    }
  }
}

TEST_F(Stem, AnImageHasItsBitsInEveryPlaceOfABatch) {
  for (const Precision precision : of_16_bits) {
    expect_bits_of_images_alone(conv("n40 3x64x48 -> 32, k 3, s 2, p 1"), options_for(precision, DType::f32), 300);
  }
}

TEST_F(Stem, NothingElse) {
  const auto taken = [](const Case& c, Precision precision, const PointwiseChain& chain = {}) {
    return takes(geometry_of(c), options_for(precision, DType::f32, chain));
  };
  EXPECT_TRUE(taken(cases[0], Precision::fp16));
  EXPECT_FALSE(taken(cases[0], Precision::fp32));
  EXPECT_FALSE(taken(cases[0], Precision::fp16, {{Pointwise::gelu}}));
  EXPECT_FALSE(taken(conv("5x20x20 -> 32, k 3, s 2, p 1"), Precision::fp16));
  EXPECT_FALSE(taken(conv("3x20x20 -> 40, k 3, s 2, p 1"), Precision::fp16));
  Case c = cases[0];
  c.stride[1] = 1;
  EXPECT_FALSE(taken(c, Precision::fp16));
  c = cases[0], c.kernel[0] = 5;
  EXPECT_FALSE(taken(c, Precision::fp16));
}

}  // namespace
}  // namespace lamina::test::stem_test
