// The depthwise convolution: every compiled kernel, any geometry, hard values, chains.

#include "cuda/conv2d/chains.h"
#include "support/kernel_harness.h"

namespace lamina::test {
namespace {

class Depthwise : public OnCuda {};

KernelOptions options_for(Precision precision, bool relu = false, const PointwiseChain& chain = {}) {
  const Format stored = {storage_type(precision), Layout::nhwc};
  return {
      .kernel = "depthwise", .precision = precision, .input = stored, .output = stored, .relu = relu, .chain = chain};
}

/// Kernel, stride, padding, dilation the same both ways.
Case depthwise(std::int64_t batch, int channels, int height, int width, int kernel, int stride, int padding,
               int dilation = 1) {
  return {.batch = batch,
          .in = channels,
          .height = height,
          .width = width,
          .out = channels,
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {padding, padding},
          .dilation = {dilation, dilation},
          .groups = channels};
}

const std::vector<Case> cases = {
    depthwise(1, 4, 5, 5, 3, 1, 1),
    depthwise(2, 32, 17, 19, 3, 1, 1),
    depthwise(1, 72, 14, 14, 5, 1, 2),
    depthwise(2, 72, 28, 27, 5, 2, 2),
    depthwise(1, 96, 15, 16, 3, 2, 1),
    depthwise(3, 240, 7, 7, 5, 1, 2),
    depthwise(1, 64, 13, 30, 7, 1, 3),
    depthwise(1, 40, 21, 9, 7, 2, 3),
    depthwise(2, 58, 9, 10, 3, 1, 1),
    depthwise(2, 58, 10, 9, 3, 2, 1),
    depthwise(1, 6, 9, 9, 5, 1, 2),
    depthwise(1, 10, 9, 9, 5, 2, 2),
    depthwise(1, 7, 9, 8, 3, 1, 1),
    depthwise(1, 12, 33, 2, 3, 1, 0 + 1),
    depthwise(1, 20, 6, 6, 3, 1, 0),
    depthwise(1, 8, 3, 3, 3, 2, 7),
    depthwise(1, 24, 40, 41, 5, 3, 4, 2),
    depthwise(1, 16, 20, 20, 3, 1, 2, 2),
    depthwise(1, 4, 40, 40, 31, 1, 15),
    depthwise(1, 200, 1, 1, 3, 1, 1),
    depthwise(1, 1, 12, 12, 3, 1, 1),
    depthwise(1, 132, 70, 5, 3, 1, 1),
    {.batch = 2, .in = 12, .height = 11, .width = 23, .out = 12, .kernel = {1, 7}, .padding = {0, 3}, .groups = 12},
    {.batch = 2,
     .in = 36,
     .height = 12,
     .width = 9,
     .out = 36,
     .kernel = {3, 3},
     .stride = {2, 1},
     .padding = {1, 1},
     .groups = 36},
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
    for (const auto& [x, w] : {std::pair<Draw, Draw>{positive, positive},
                               {mixed, normal},
                               {mixed, mixed},
                               {scaled(normal, 1e-38f), normal}}) {
      expect_contract(g, options_for(Precision::fp32), draw(g, x, w, ++seed), false);
    }
    for (const Precision precision : precisions) {
      ConvData data = draw(g, normal, positive, ++seed);
      data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
      expect_contract(g, options_for(precision, true), data, true);
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
  for (const Precision precision : precisions) {
    Case c = cases[2];
    c.batch = 5;
    const ConvGeometry many = geometry_of(c);
    c.batch = 1;
    const ConvGeometry one = geometry_of(c);
    ConvData data = draw(many, normal, normal, 500);
    const auto all = run_bytes(many, options_for(precision), data, true);
    data.x.resize(static_cast<std::size_t>(one.input_size()));
    const auto first = run_bytes(one, options_for(precision), data, true);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  }
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
}  // namespace lamina::test
