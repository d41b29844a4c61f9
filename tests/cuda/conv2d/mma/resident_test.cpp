// The convolution on mma.sync: any channels, groups and geometry, on every tile; hard values; chains.

#include "cuda/conv2d/chains.h"
#include "lamina/cuda/conv2d/mma/resident/choice.h"
#include "support/kernel_harness.h"

namespace lamina::test {
namespace {

class Mma : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (IsSkipped()) return;
    if (lamina::describe(Device::cuda()).architecture < 80) GTEST_SKIP() << "needs compute capability 8.0";
  }
};

KernelOptions options_for(Precision precision, bool relu = false, const PointwiseChain& chain = {},
                          const Tuning& tuning = {}) {
  const Format stored = {storage_type(precision), Layout::nhwc};
  return {.kernel = "mma",
          .precision = precision,
          .input = stored,
          .output = stored,
          .relu = relu,
          .chain = chain,
          .tuning = tuning};
}

/// As networks group: channels of a group, groups.
Case grouped(std::int64_t batch, int in, int out, int groups, int height, int width, int kernel = 3, int stride = 1) {
  return {.batch = batch,
          .in = in * groups,
          .height = height,
          .width = width,
          .out = out * groups,
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {kernel / 2, kernel / 2},
          .groups = groups};
}

const std::vector<Case> cases = {
    grouped(2, 4, 4, 32, 17, 19),  // ResNeXt
    grouped(1, 8, 8, 32, 28, 28),
    grouped(1, 16, 16, 32, 14, 15),
    grouped(2, 32, 32, 8, 7, 7),
    grouped(1, 8, 8, 32, 29, 28, 3, 2),
    grouped(1, 24, 24, 5, 15, 14),  // RegNet
    grouped(1, 56, 56, 3, 9, 9, 3, 2),
    grouped(1, 64, 64, 3, 9, 11),
    grouped(1, 80, 80, 2, 8, 8),
    grouped(2, 20, 60, 3, 8, 9, 1),  // ShuffleNet
    grouped(1, 5, 3, 7, 9, 8),       // what divides by nothing
    grouped(1, 3, 70, 2, 9, 8),
    grouped(1, 12, 12, 4, 9, 8, 5),
    grouped(1, 1, 3, 9, 12, 12),  // depthwise with a multiplier
    grouped(1, 1, 1, 37, 12, 12),
    grouped(1, 128, 136, 2, 6, 7),
    grouped(2, 58, 58, 1, 14, 14, 1),  // dense
    grouped(3, 232, 232, 1, 7, 7, 1),
    grouped(2, 3, 32, 1, 31, 33, 3, 2),
    grouped(1, 3, 64, 1, 40, 38, 7, 2),
    grouped(1, 30, 100, 1, 20, 21),
    grouped(1, 200, 130, 1, 9, 9),
    grouped(1, 64, 64, 1, 14, 14, 1, 2),
    grouped(37, 136, 10, 1, 1, 1, 1),
    grouped(3, 10, 240, 1, 1, 1, 1),
    grouped(259, 33, 17, 1, 1, 1, 1),
    grouped(1, 7, 1, 1, 5, 5),
    {.batch = 2,
     .in = 17,
     .height = 23,
     .width = 29,
     .out = 21,
     .kernel = {3, 5},
     .stride = {2, 3},
     .padding = {1, 4},
     .dilation = {3, 2}},
    {.in = 40, .height = 30, .width = 30, .out = 24, .kernel = {3, 3}, .padding = {12, 12}, .dilation = {12, 12}},
    {.in = 16, .height = 40, .width = 40, .out = 8, .kernel = {3, 3}, .stride = {4, 4}, .dilation = {2, 2}},
    {.in = 16, .height = 20, .width = 20, .out = 8, .kernel = {2, 2}, .stride = {6, 5}},
    {.in = 8,
     .height = 9,
     .width = 9,
     .out = 8,
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {7, 7},
     .dilation = {3, 3}},
    {.in = 4, .height = 1, .width = 300, .out = 8, .kernel = {1, 129}, .padding = {0, 64}},
    {.in = 2, .height = 30, .width = 30, .out = 5, .kernel = {15, 13}, .padding = {7, 6}},
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
      ConvData data = draw(g, normal, positive, ++seed);
      data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
      expect_contract(g, options_for(precision, true, {{.function = Pointwise::add, .operand = 1}}), data, true);
    }
  }
}

TEST_F(Mma, Overflow) {
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    const ConvGeometry g = geometry_of(cases[7]);
    ConvData data = draw(g, positive, positive, 13);
    for (float& x : data.x) x *= 1e38f;
    for (float& w : data.w) w *= 100.0f;
    for (const float y : run(g, options_for(precision), data, true)) ASSERT_EQ(y, infinity);
  }
}

TEST_F(Mma, Fp32HoldsOnAwkwardValues) {
  unsigned seed = 70;
  for (const std::size_t i : {0u, 7u, 21u}) {
    const ConvGeometry g = geometry_of(cases[i]);
    for (const auto& [x, w] : {std::pair<Draw, Draw>{positive, positive},
                               {mixed, normal},
                               {normal, mixed},
                               {mixed, mixed},
                               {scaled(normal, 1e-38f), normal},
                               {scaled(normal, 1e-42f), scaled(normal, 1e20f)},
                               {normal, scaled(normal, 1e-36f)},
                               {scaled(normal, 1e36f), scaled(normal, 1e-36f)}}) {
      expect_contract(g, options_for(Precision::fp32), draw(g, x, w, ++seed), false);
    }
  }
}

TEST_F(Mma, ANeighbourInTheBatchChangesNoBit) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : {2u, 4u, 5u, 20u, 16u}) {
      Case c = cases[i];
      c.batch = 40;
      const ConvGeometry many = geometry_of(c);
      c.batch = 1;
      const ConvGeometry one = geometry_of(c);
      ConvData data = draw(many, normal, normal, 500);
      const auto all = run_bytes(many, options_for(precision), data, true);
      data.x.resize(static_cast<std::size_t>(one.input_size()));
      const auto first = run_bytes(one, options_for(precision), data, true);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin())) << describe(one, options_for(precision));
    }
  }
}

}  // namespace
}  // namespace lamina::test
