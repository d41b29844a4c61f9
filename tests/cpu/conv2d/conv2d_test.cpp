#include "lamina/cpu/conv2d/conv2d.h"

#include <functional>
#include <ostream>

#include "cpu/conv2d/row_run.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "support/contract.h"
#include "support/guarded.h"

namespace lamina::cpu::conv2d_test {
namespace {

using test::ConvOperands;
using test::geometry_of;
using test::square;
using test::Values;

struct Kernel {
  std::string name;
  std::function<void(const ConvGeometry&, const Conv2dPointers&, ThreadPool&)> run;
};

void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

std::vector<Kernel> kernels() {
  std::vector<Kernel> result = {{"direct", conv2d_direct},
                                {"eigen", [](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool) {
                                   std::vector<float> space(conv2d_eigen_workspace(g, pool.threads()) / sizeof(float));
                                   conv2d_eigen(g, p, pool, space.data());
                                 }}};
  for (const LanesKernel& kernel : lanes_kernels(DType::f32)) {
    for (const char* row : {"planes", "rows"}) {
      std::string name = std::string(row) + "_" + lamina::name(kernel.set);
      std::erase_if(name, [](char c) { return c == '-'; });
      result.push_back(
          {name, [row, set = kernel.set](const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool) {
             if (row == std::string_view("rows") && !RowBand(g).takes) return conv2d_direct(g, p, pool);
             const Epilogue relu = {.chain = {{Pointwise::relu}}};
             const Operands o = {p.input, p.weight, p.bias, nullptr, p.output};
             Run(g, set, pool.threads(), p.relu ? relu : Epilogue(), o, Layout::nchw, Layout::nchw)(row, pool);
           }});
    }
  }
  return result;
}

class CpuConv2d : public testing::TestWithParam<Kernel> {};

TEST_P(CpuConv2d, KeepsTheContractOnEveryGeometry) {
  ThreadPool pool(3);
  for (const ConvGeometry& g : test::awkward_geometries()) {
    for (const Values values : {Values::mixed, Values::positive, Values::equal}) {
      const ConvOperands c(g, values);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      std::vector<float> output(truth.value.size(), NAN);
      GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), false}, pool);
      test::expect_contract(g, Precision::fp32, truth, output);
    }
  }
}

TEST_P(CpuConv2d, FusesReluAndDoesWithoutBias) {
  ThreadPool pool(2);
  const ConvGeometry g = geometry_of(square(2, 3, 19, 23, 7, 5, 2, 1));
  const ConvOperands c(g, Values::mixed);
  auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), nullptr);
  for (double& value : truth.value) value = std::max(value, 0.0);
  std::vector<float> output(truth.value.size(), NAN);
  GetParam().run(g, {c.input.data(), c.weight.data(), nullptr, output.data(), true}, pool);
  test::expect_contract(g, Precision::fp32, truth, output);
}

TEST_P(CpuConv2d, ThreadsDoNotChangeABit) {
  const ConvGeometry g = geometry_of(square(3, 4, 31, 29, 10, 5, 1, 2));
  const ConvOperands c(g, Values::mixed);
  std::vector<float> one(static_cast<std::size_t>(g.output_size())), many(one.size());
  ThreadPool single(1), several(4);
  GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), one.data(), false}, single);
  GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), many.data(), false}, several);
  EXPECT_EQ(one, many);
}

TEST_P(CpuConv2d, NanReachesTheWindowsThatHoldItAndNoOthers) {
  const ConvGeometry g = geometry_of(square(1, 3, 12, 12, 5, 3, 2, 1));
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ConvOperands c(g, Values::positive);
    c.input[static_cast<std::size_t>(12 * 12 + 5 * 12 + 6)] = poison;  // channel 1, row 5, column 6
    const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
    std::vector<float> output(truth.value.size());
    ThreadPool pool(1);
    GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), true}, pool);
    int reached = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      EXPECT_EQ(std::isfinite(output[i]), std::isfinite(truth.value[i])) << i;
      reached += std::isfinite(output[i]) ? 0 : 1;
    }
    // With stride 2 and padding 1, input row 5 lies in output rows 2 and 3, column 6 in output column 3 only.
    EXPECT_EQ(reached, 5 * 2);
  }
}

TEST_P(CpuConv2d, LayersOfAlexNetKeepTheContractOnFlatImages) {
  ThreadPool pool(2);
  const ConvGeometry layers[] = {geometry_of(square(1, 3, 63, 224, 96, 11, 4, 2)),
                                 geometry_of(square(1, 64, 9, 27, 40, 5, 1, 2)),
                                 geometry_of(square(2, 384, 5, 13, 48, 3, 1, 1))};
  for (const ConvGeometry& g : layers) {
    for (const Values values : {Values::positive, Values::equal}) {
      const ConvOperands c(g, values);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      std::vector<float> output(truth.value.size(), NAN);
      GetParam().run(g, {c.input.data(), c.weight.data(), c.bias.data(), output.data(), false}, pool);
      test::expect_contract(g, Precision::fp32, truth, output);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuConv2d, testing::ValuesIn(kernels()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lamina::cpu::conv2d_test
