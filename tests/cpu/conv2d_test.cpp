#include "lamina/cpu/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contract.h"

namespace lamina::cpu {
namespace {

using test::ConvOperands;
using test::geometry_of;
using test::square;
using test::Values;

struct Kernel {
  const char* name;
  void (*run)(const ConvGeometry&, const Conv2dPointers&, ThreadPool&, std::vector<float>&);
};

const Kernel kernels[] = {
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

INSTANTIATE_TEST_SUITE_P(Kernels, CpuConv2d, testing::ValuesIn(kernels),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CpuConv2dWorkspace, ATileIsATwentiethOfAnImage) {
  const ConvGeometry conv1 = test::alexnet_conv1(8);
  EXPECT_LE(conv2d_eigen_workspace(conv1, 1) * 20, conv2d_im2col_workspace(conv1, 1));
  EXPECT_LE(conv2d_eigen_workspace(conv1, 2) * 20, conv2d_im2col_workspace(conv1, 2));
}

}  // namespace
}  // namespace lamina::cpu
