// The implicit GEMM computes every convolution, on every tile, and nothing else.

#include "cuda/conv2d/mma/harness.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::test::gathered_test {
namespace {

class ImplicitGemm : public OnAmpere {};

TEST_F(ImplicitGemm, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    double worst = 0;
    for (const Case& c : gathered_cases) {
      const ConvGeometry g = geometry_of(c);
      // Bias and ReLU take turns, so that over the cases all four combinations occur.
      const KernelOptions options = implicit(precision, (seed & 1) != 0);
      if (detail::is_of_few_channels(g)) continue;  // it is not to turn what a Map multiplies as it lies
      ASSERT_TRUE(takes(g, options));
      const ConvData data = draw(g, normal, normal, seed);
      const ConvReference reference = reference_of(g, precision, data, (seed & 2) != 0);
      worst = std::max(worst, expect_contract(g, options, data, (seed & 2) != 0, reference));
      worst = std::max(worst, expect_contract(g, stored(precision, (seed & 4) != 0), data, (seed & 2) != 0, reference));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(ImplicitGemm, EveryTileAndSplit) {
  unsigned seed = 1000;
  for (const Precision precision : precisions) {
    for (const std::size_t i : {3u, 6u, 17u, 29u, 38u, 44u, 47u, 51u}) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      for (const int tile : tiles_for(g, precision)) {
        for (const int splits : {1, 2, 5}) {
          const KernelOptions options = stored(precision, (++seed & 1) != 0, {.tile = tile, .splits = splits});
          expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0);
        }
      }
    }
  }
}

// As on a GPU of one multiprocessor: a block has many tiles, of one step and of several, and the last ones have rests.
TEST_F(ImplicitGemm, BlocksOfManyTiles) {
  DeviceDescription device = lamina::describe(Device::cuda());
  device.multiprocessors = 1;
  const std::vector<Case> large = {conv("n3 16x37x41 -> 72"), conv("n2 24x33x31 -> 136, k 3, p 1"),
                                   conv("n2 16x29x31 -> 140, k 3, s 1x2, g 2"), conv("n2 3x47x50 -> 64, k 3, p 1")};
  unsigned seed = 2000;
  for (const Precision precision : precisions) {
    for (const Case& c : large) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (const int tile : tiles_for(g, precision)) {
        for (const int splits : {1, 2}) {
          const KernelOptions options = stored(precision, true, {.tile = tile, .splits = splits});
          Task<> task(g, options, device);
          const Prepared kernel = {task.prepare(data, true), task.views[0], task.views[2]};
          expect_outputs(expected_outputs(g, options, reference), run(kernel, data.x), describe(g, options));
        }
      }
    }
  }
}

TEST_F(ImplicitGemm, EveryFormat) {
  for (const Precision precision : precisions) {
    const DType type = storage_type(precision);
    for (const std::size_t i : {2u, 5u, 9u, 25u, 34u, 43u, 51u}) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      const ConvData data = draw(g, normal, normal, 7);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (const Format in : {Format{}, Format{DType::f32, Layout::nhwc}, Format{type}, Format{type, Layout::nhwc}}) {
        for (const Format out : {Format{DType::f32, Layout::nhwc}, Format{type, Layout::nhwc}}) {
          KernelOptions options = implicit(precision, true, {.splits = out.dtype == DType::f32 ? 3 : 0});
          options.input = in, options.output = out;
          expect_contract(g, options, data, true, reference);
        }
      }
    }
  }
}

TEST_F(ImplicitGemm, Chains) {
  unsigned seed = 300;
  for (const Precision precision : precisions) {
    for (const PointwiseChain& chain : chains) {
      for (const std::size_t i : {4u, 9u, 18u, 42u, 51u}) {
        const ConvGeometry g = geometry_of(gathered_cases[i]);
        for (const int splits : {1, 3}) {
          KernelOptions options = stored(precision, false, {.splits = splits});
          options.chain = chain;
          expect_contract(g, options, draw(g, normal, normal, ++seed), true);
        }
      }
    }
  }
}

TEST_F(ImplicitGemm, SlicesOfTheBatchFitTheWorkspaceLimit) {
  for (const Precision precision : precisions) {
    const ConvGeometry g = geometry_of(gathered_cases[44]);
    const std::size_t image = 25 * 24 * (precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2);
    KernelOptions options = implicit(precision);
    options.workspace_limit = 2 * image + image / 2;
    const ConvData data = draw(g, normal, normal, 41);
    EXPECT_LE(prepare(g, options, data, false).op->workspace_bytes(), options.workspace_limit);
    expect_contract(g, options, data, true);
    options.workspace_limit = image - 1;
    EXPECT_FALSE(takes(g, options));
  }
}

TEST_F(ImplicitGemm, SameBitsEveryRun) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : {6u, 9u, 10u}) {
      const ConvGeometry g = geometry_of(gathered_cases[i]);
      const ConvData data = draw(g, normal, normal, 43);
      for (const int splits : {1, 4}) {
        const KernelOptions options = implicit(precision, false, {.splits = splits});
        const auto first = run_bytes(g, options, data, true);
        for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(first, run_bytes(g, options, data, true));
      }
    }
  }
}

TEST_F(ImplicitGemm, RefusesWhatItCannotDo) {
  const ConvGeometry g = geometry_of(conv("1x1x300 -> 3, k 1x128"));
  EXPECT_FALSE(takes(g, implicit(Precision::fp32)));
  const ConvGeometry small = geometry_of(gathered_cases[1]);
  EXPECT_TRUE(takes(small, implicit(Precision::fp32)));
  KernelOptions options = implicit(Precision::fp32);
  options.input = {DType::f16};
  EXPECT_FALSE(takes(small, options));
  options = implicit(Precision::fp16);
  options.output = {DType::bf16, Layout::nhwc};
  EXPECT_FALSE(takes(small, options));
  options.output = {DType::f16};
  EXPECT_FALSE(takes(small, options));
}

}  // namespace
}  // namespace lamina::test::gathered_test
