// First layers of 3x3 windows with stride 2: sizes that no tile divides, every instance, functions, hard values.

#include "support/kernel_harness.h"

namespace lamina::test {
namespace {

constexpr Precision of_16_bits[] = {Precision::fp16, Precision::bf16};

class Stem : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (!IsSkipped() && lamina::describe(Device::cuda()).architecture < 80) {
      GTEST_SKIP() << "needs compute capability 8.0";
    }
  }
};

KernelOptions options_for(Precision precision, DType input, const PointwiseChain& chain = {}) {
  return {.kernel = "stem",
          .precision = precision,
          .input = {input, Layout::nchw},
          .output = {storage_type(precision), Layout::nhwc},
          .chain = chain};
}

Case stem(std::int64_t batch, int in, int height, int width, int out, int padding_height = 1, int padding_width = 1) {
  return {.batch = batch,
          .in = in,
          .height = height,
          .width = width,
          .out = out,
          .kernel = {3, 3},
          .stride = {2, 2},
          .padding = {padding_height, padding_width}};
}

const Case cases[] = {
    stem(2, 3, 33, 61, 32),     stem(1, 3, 64, 64, 16), stem(3, 1, 7, 5, 24),          stem(1, 4, 12, 300, 64, 0, 2),
    stem(2, 2, 3, 3, 48, 0, 0), stem(1, 3, 1, 1, 32),   stem(1, 3, 19, 530, 16, 3, 0), stem(5, 3, 224, 35, 32),
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
    Case c = stem(40, 3, 64, 48, 32);
    const ConvGeometry many = geometry_of(c);
    c.batch = 1;
    const ConvGeometry one = geometry_of(c);
    ConvData data = draw(many, normal, normal, 300);
    const auto all = run_bytes(many, options_for(precision, DType::f32), data, true);
    EXPECT_EQ(run_bytes(many, options_for(precision, DType::f32), data, true), all);
    data.x.erase(data.x.begin(), data.x.end() - static_cast<std::ptrdiff_t>(one.input_size()));
    const auto alone = run_bytes(one, options_for(precision, DType::f32), data, true);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.end() - static_cast<std::ptrdiff_t>(alone.size())));
  }
}

TEST_F(Stem, NothingElse) {
  const auto taken = [](const Case& c, Precision precision, const PointwiseChain& chain = {}) {
    return takes(geometry_of(c), options_for(precision, DType::f32, chain));
  };
  EXPECT_TRUE(taken(cases[0], Precision::fp16));
  EXPECT_FALSE(taken(cases[0], Precision::fp32));
  EXPECT_FALSE(taken(cases[0], Precision::fp16, {{Pointwise::gelu}}));
  EXPECT_FALSE(taken(stem(1, 5, 20, 20, 32), Precision::fp16));
  EXPECT_FALSE(taken(stem(1, 3, 20, 20, 40), Precision::fp16));
  Case c = cases[0];
  c.stride[1] = 1;
  EXPECT_FALSE(taken(c, Precision::fp16));
  c = cases[0], c.kernel[0] = 5;
  EXPECT_FALSE(taken(c, Precision::fp16));
}

}  // namespace
}  // namespace lamina::test
