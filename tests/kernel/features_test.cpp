// What a kernel does not say that it reads it is never given.

#include <gtest/gtest.h>

#include <functional>

#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"
#include "support/devices.h"

namespace lamina::test::features_test {
namespace {

constexpr Format pixels = {DType::f32, Layout::nhwc};

/// A convolution of single pixels and how it lies in memory; a case makes another of it.
struct Case {
  ConvProblem problem = {.geometry = {.in_channels = 16,
                                      .in_height = 4,
                                      .in_width = 4,
                                      .out_channels = 16,
                                      .out_height = 4,
                                      .out_width = 4,
                                      .kernel_height = 1,
                                      .kernel_width = 1},
                         .weight = Tensor({16, 16, 1, 1})};
  std::vector<View> inputs = {{.shape = {1, 16, 4, 4}, .format = pixels}};
  View output = {.shape = {1, 16, 4, 4}, .format = pixels};

  Preparation preparation(const DeviceDescription& device) const {
    return {.inputs = inputs, .outputs = {&output, 1}, .device = device};
  }
};

const PointwiseStep product = {.function = Pointwise::mul, .operand = 1}, codes = to_codes(DType::u8, {1, 0}),
                    table = look_up(std::make_shared<const CodeTable>());

const struct {
  Features expected;
  std::function<void(Case&)> change;
} cases[] = {
    {0, [](Case&) {}},
    {reads::slices, [](Case& c) { c.inputs[0].channels = 32; }},
    {reads::strides,
     [](Case& c) {
       c.inputs[0].strides = {512, 1, 128, 32};
     }},
    {reads::codes, [](Case& c) { c.output.quantization.scale = 1; }},
    {0, [](Case& c) { c.problem.epilogue.chain = {{Pointwise::relu}}; }},
    {reads::chain, [](Case& c) { c.problem.epilogue.chain = {{Pointwise::silu}}; }},
    {reads::chain | reads::operands,
     [](Case& c) {
       c.problem.epilogue.chain = {{Pointwise::add, 1}};
     }},
    {reads::chain | reads::operands,
     [](Case& c) {
       c.problem.epilogue.chain = {{Pointwise::clip, -1, 1}};
     }},
    {reads::uneven, [](Case& c) { c.problem.geometry.out_height = 5; }},
    {reads::pool, [](Case& c) { c.problem.epilogue.pool.emplace(); }},
    {reads::scaled, [](Case& c) { c.problem.prologue = {product}; }},
    {reads::rounding, [](Case& c) { c.problem.prologue = {codes}; }},
    {reads::codes | reads::sums, [](Case& c) { c.inputs[0].quantization.scale = 1, c.problem.eight.whole = true; }},
    {reads::codes | reads::chain | reads::sum_codes,
     [](Case& c) { c.inputs[0].quantization.scale = 1, c.problem.epilogue.chain = {codes}; }},
    {reads::codes | reads::zero_points,
     [](Case& c) { c.inputs[0].quantization.scale = 1, c.problem.eight.zero_point = Tensor({16}, DType::i32); }}};

TEST(Features, AreTheBitsOfWhatAProblemUses) {
  for (const auto& [expected, change] : cases) {
    Case c;
    change(c);
    EXPECT_EQ(features(c.problem, c.preparation({})), expected);
    EXPECT_EQ(features(ConvPairProblem{.first = {}, .second = c.problem, .between = {}}, c.preparation({})),
              (expected & 7u) | reads::behind(expected & ~7u));
  }
}

TEST(Features, AreRefusedByKernelsThatDoNotReadThem) {
  for (const auto& [expected, change] : cases) {
    Case c;
    change(c);
    for (const DeviceDescription& device : {DeviceDescription(), h200()}) {
      for (const Kernel<ConvProblem>& kernel : kernels<ConvProblem>(device.device.type)) {
        if ((expected & ~kernel.reads) != 0) {
          EXPECT_FALSE(kernel.solves(c.problem, c.preparation(device))) << kernel.name;
        }
      }
    }
  }
}

/// Kernels of floats once took what says that those are to become codes, and computed without.
TEST(Features, ThatMeanNothingAreReadByNobody) {
  const std::pair<PointwiseChain, PointwiseChain> changes[] = {{{codes}, {}}, {{product, codes}, {}}, {{table}, {}},
                                                               {{}, {codes}}, {{}, {table}},          {{}, {}}};
  for (const auto& [prologue, chain] : changes) {
    Case c;
    c.problem.prologue = prologue, c.problem.epilogue.chain = chain;
    c.problem.eight.whole = prologue.empty() && chain.empty();
    for (const DeviceDescription& device : {describe(Device::cpu()), h200()}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
        Preparation p = c.preparation(device);
        p.precision = precision;
        EXPECT_EQ(find_kernel(c.problem, p), nullptr);
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::features_test
