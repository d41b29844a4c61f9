// Patches: windows side by side over images of so few channels that TMA reads a patch's row of pixels as one.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test {
namespace {

const std::vector<Case> patch_cases = {
    {.batch = 3, .in = 3, .height = 32, .width = 48, .out = 72, .kernel = {16, 16}, .stride = {16, 16}},
    {.in = 3, .height = 28, .width = 56, .out = 40, .kernel = {14, 8}, .stride = {14, 8}},
    {.batch = 2, .in = 1, .height = 10, .width = 32, .out = 8, .kernel = {2, 16}, .stride = {2, 16}},
    {.batch = 5, .in = 4, .height = 4, .width = 36, .out = 200, .kernel = {4, 4}, .stride = {4, 4}},
    {.batch = 2, .in = 3, .height = 224, .width = 224, .out = 64, .kernel = {32, 32}, .stride = {32, 32}},
};

TEST_F(NhwcConv2d, PatchesMeetTheContractInEveryPrecision) {
  unsigned seed = 40;
  for (const Precision precision : precisions) {
    for (const Case& c : patch_cases) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && g.flops() > 3e7) continue;
      const KernelOptions options = options_for(precision, (++seed & 1) != 0);
      ASSERT_TRUE(takes(g, options)) << seed;
      expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0);
    }
  }
}

TEST_F(NhwcConv2d, NanAndInfReachTheirPatchesAlone) {
  const ConvGeometry g = geometry_of(patch_cases[0]);
  for (const Precision precision : precisions) {
    ConvData data = draw(g, normal, positive, 12);
    data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
    expect_contract(g, options_for(precision), data, true);
  }
}

TEST_F(NhwcConv2d, RefusesWindowsThatAreNoPatches) {
  const auto taken = [](Case c, const auto& change) {
    change(c);
    return takes(geometry_of(c), options_for(Precision::fp16));
  };
  const Case c = patch_cases[0];
  EXPECT_TRUE(taken(c, [](Case&) {}));
  EXPECT_FALSE(taken(c, [](Case& k) { k.width = 49; }));   // rows with something left over
  EXPECT_FALSE(taken(c, [](Case& k) { k.height = 33; }));  // images with rows left over
  EXPECT_FALSE(taken(c, [](Case& k) { k.stride[1] = 8; }));
  EXPECT_FALSE(taken(c, [](Case& k) { k.padding[0] = 8; }));
  EXPECT_FALSE(taken(c, [](Case& k) { k.in = 3, k.kernel[1] = k.stride[1] = 12; }));  // 72 bytes
}

}  // namespace
}  // namespace lamina::test
