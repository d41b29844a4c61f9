// Patches: windows side by side over images of so few channels that TMA reads a patch's row of pixels as one.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test::patches_test {
namespace {

const std::vector<Case> patch_cases = {
    conv("n3 3x32x48 -> 72, k 16, s 16"),    conv("3x28x56 -> 40, k 14x8, s 14x8"),
    conv("n2 1x10x32 -> 8, k 2x16, s 2x16"), conv("n5 4x4x36 -> 200, k 4, s 4"),
    conv("n2 3x224x224 -> 64, k 32, s 32"),
};

TEST_F(ChannelsLast, PatchesMeetTheContractInEveryPrecision) {
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

TEST_F(ChannelsLast, NanAndInfReachTheirPatchesAlone) {
  const ConvGeometry g = geometry_of(patch_cases[0]);
  for (const Precision precision : precisions) {
    ConvData data = draw(g, normal, positive, 12);
    data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
    expect_contract(g, options_for(precision), data, true);
  }
}

TEST_F(ChannelsLast, RefusesWindowsThatAreNoPatches) {
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
}  // namespace lamina::test::patches_test
