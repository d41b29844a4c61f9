#include "lamina/cpu/conv2d/conv2d.h"

#include <functional>
#include <ostream>

#include "lamina/cpu/conv2d/blocked.h"
#include "support/contract.h"
#include "support/guarded.h"

namespace lamina::cpu {
namespace {

using test::ConvOperands;
using test::geometry_of;
using test::square;
using test::Values;

struct Kernel {
  std::string name;
  std::function<void(const ConvGeometry&, const Conv2dPointers&, ThreadPool&, std::vector<float>&)> run;
};

void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

void run_blocked(const BlockedKernel& kernel, const ConvGeometry& g, Conv2dPointers p, ThreadPool& pool) {
  Guarded<float> packed(whole_lines(conv2d_blocked_packed_size(g, kernel)));
  Guarded<float> workspace(
      whole_lines(static_cast<std::int64_t>(conv2d_blocked_workspace(g, kernel, pool.threads()) / sizeof(float))));
  conv2d_blocked_pack(g, kernel, p.weight, p.bias, packed.data());
  p.weight = packed.data();
  conv2d_blocked(g, kernel, p, pool, workspace.data());
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> result = {
      {"direct", [](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool,
                    std::vector<float>&) { conv2d_direct(g, p, pool); }},
      {"im2col",
       [](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, std::vector<float>& workspace) {
         workspace.assign(conv2d_im2col_workspace(g, pool.threads()) / sizeof(float), NAN);
         conv2d_im2col(g, p, pool, workspace.data());
       }},
      {"eigen", [](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, std::vector<float>& workspace) {
         workspace.assign(conv2d_eigen_workspace(g, pool.threads()) / sizeof(float), NAN);
         conv2d_eigen(g, p, pool, workspace.data());
       }}};
  for (const BlockedKernel& kernel : blocked_kernels()) {
    std::string name = std::string("blocked_") + lamina::name(kernel.set);
    std::erase_if(name, [](char c) { return c == '-'; });
    result.push_back({name, [&kernel](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool,
                                      std::vector<float>&) { run_blocked(kernel, g, p, pool); }});
  }
  return result;
}

class CpuConv2d : public testing::TestWithParam<Kernel> {};

TEST_P(CpuConv2d, KeepsTheContractOnEveryGeometry) {
  ThreadPool pool(3);
  std::vector<float> workspace;
  for (const ConvGeometry& g : test::awkward_geometries()) {
    for (const Values values : {Values::mixed, Values::positive, Values::equal}) {
      const ConvOperands c(g, values);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      std::vector<float> output(truth.value.size(), NAN);
      GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), false}, pool, workspace);
      test::expect_contract(g, Precision::fp32, truth, output);
    }
  }
}

TEST_P(CpuConv2d, FusesReluAndDoesWithoutBias) {
  ThreadPool pool(2);
  std::vector<float> workspace;
  const ConvGeometry g = geometry_of(square(2, 3, 19, 23, 7, 5, 2, 1));
  const ConvOperands c(g, Values::mixed);
  auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), nullptr);
  for (double& value : truth.value) value = std::max(value, 0.0);
  std::vector<float> output(truth.value.size(), NAN);
  GetParam().run(g, {c.input.data(), c.weight.data(), nullptr, output.data(), true}, pool, workspace);
  test::expect_contract(g, Precision::fp32, truth, output);
}

TEST_P(CpuConv2d, ThreadsDoNotChangeABit) {
  std::vector<float> workspace;
  const ConvGeometry g = geometry_of(square(3, 4, 31, 29, 10, 5, 1, 2));
  const ConvOperands c(g, Values::mixed);
  std::vector<float> one(static_cast<std::size_t>(g.output_size())), many(one.size());
  ThreadPool single(1), several(4);
  GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), one.data(), false}, single, workspace);
  GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), many.data(), false}, several, workspace);
  EXPECT_EQ(one, many);
}

TEST_P(CpuConv2d, NanReachesTheWindowsThatHoldItAndNoOthers) {
  const ConvGeometry g = geometry_of(square(1, 3, 12, 12, 5, 3, 2, 1));
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ConvOperands c(g, Values::positive);
    c.input[static_cast<std::size_t>(12 * 12 + 5 * 12 + 6)] = poison;  // channel 1, row 5, column 6
    const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
    std::vector<float> output(truth.value.size()), workspace;
    ThreadPool pool(1);
    GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), true}, pool, workspace);
    int reached = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      EXPECT_EQ(std::isfinite(output[i]), std::isfinite(truth.value[i])) << i;
      reached += std::isfinite(output[i]) ? 0 : 1;
    }
    // With stride 2 and padding 1, input row 5 lies in output rows 2 and 3, column 6 in output column 3 only.
    EXPECT_EQ(reached, 5 * 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuConv2d, testing::ValuesIn(kernels()),
                         [](const auto& test) { return std::string(test.param.name); });

// Every number of filters from one to past two wide blocks, every width of an output row from one pixel to past two
// tiles, for each instruction set: all remainders of vectors and of tiles.
TEST(CpuConv2dBlocked, EveryRemainderOfFiltersAndPixels) {
  ThreadPool pool(2);
  for (const BlockedKernel& kernel : blocked_kernels()) {
    const int most = std::max(2 * kernel.vectors * kernel.lanes, 2 * kernel.pixels) + 3;
    for (int i = 1; i <= most; ++i) {
      for (const int stride : {1, 2, 3, 4}) {
        const ConvGeometry g = geometry_of({.in_channels = 2,
                                            .height = 4,
                                            .width = stride * (most - i) + 1,
                                            .out_channels = i,
                                            .kernel_height = 3,
                                            .kernel_width = 2,
                                            .stride_height = 2,
                                            .stride_width = stride,
                                            .padding_height = 1,
                                            .padding_width = i % 2});
        if (g.out_width < 1) continue;
        const ConvOperands c(g, Values::mixed);
        const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
        // Up to a page's last byte and so at odd addresses: only vectors of the kernel's own may ask for alignment.
        Guarded<float> input(c.input), weight(c.weight), bias(c.bias);
        Guarded<float> output(static_cast<std::int64_t>(truth.value.size()));
        run_blocked(kernel, g, {input.data(), weight.data(), bias.data(), output.data(), false}, pool);
        test::expect_contract(g, Precision::fp32, truth, output.span());
      }
    }
  }
}

TEST(CpuConv2dBlocked, LayersOfAlexNetKeepTheContractOnFlatImages) {
  ThreadPool pool(2);
  const ConvGeometry layers[] = {geometry_of(square(1, 3, 63, 224, 96, 11, 4, 2)),
                                 geometry_of(square(1, 64, 9, 27, 40, 5, 1, 2)),
                                 geometry_of(square(2, 384, 5, 13, 48, 3, 1, 1))};
  for (const BlockedKernel& kernel : blocked_kernels()) {
    for (const ConvGeometry& g : layers) {
      for (const Values values : {Values::positive, Values::equal}) {
        const ConvOperands c(g, values);
        const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
        std::vector<float> output(truth.value.size(), NAN);
        run_blocked(kernel, g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), false}, pool);
        test::expect_contract(g, Precision::fp32, truth, output);
      }
    }
  }
}

TEST(CpuConv2dWorkspace, ATileIsATwentiethOfAnImage) {
  const ConvGeometry conv1 = test::alexnet_conv1(8);
  EXPECT_LE(conv2d_eigen_workspace(conv1, 1) * 20, conv2d_im2col_workspace(conv1, 1));
  EXPECT_LE(conv2d_eigen_workspace(conv1, 2) * 20, conv2d_im2col_workspace(conv1, 2));
}

}  // namespace
}  // namespace lamina::cpu
