// Which layers of a block become one operation on a GPU, whose kernels do several.

#include "compile/fused.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/conv_sum.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/pool2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"

namespace lamina::test::fuse_blocks_test {
namespace {

/// Where a kernel does both: in 16 bits on Hopper, if one of them is of single pixels and nobody else reads it.
TEST(Fuse, TwoConvolutionsThatAreAddedAreOne) {
  if (kernels<ConvSumProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const auto steps = [](int kernel, int kernel_of_shortcut, bool read_twice, Precision precision) {
    Graph g;
    const auto conv = [&](const char* name, int size, const char* input) {
      const Value x = g.input(input, {batch, 64, 6, 6});
      return g.add(name, Conv2d({.in = 64, .out = 128, .kernel = size, .padding = size / 2}), x);
    };
    const Value a = conv("a", kernel, "x"), b = conv("b", kernel_of_shortcut, "shortcut");
    g.output(g.add("y", ReLU(), g.add("sum", Add(), {a, b})));
    if (read_twice) g.output(a);
    randomize(g);
    return fused(g, h200(), precision);
  };
  using Steps = std::vector<std::string>;
  EXPECT_EQ(steps(1, 1, false, Precision::fp16), (Steps{"sum of convolutions: sum, y, a"}));
  EXPECT_EQ(steps(3, 1, false, Precision::bf16), (Steps{"sum of convolutions: sum, y, a"}));
  EXPECT_EQ(steps(1, 3, false, Precision::bf16), (Steps{"sum of convolutions: sum, y, a"}));
  EXPECT_EQ(steps(3, 3, false, Precision::fp16), (Steps{"conv2d: ", "conv2d: sum, y"}));
  EXPECT_EQ(steps(1, 1, true, Precision::fp16), (Steps{"conv2d: ", "conv2d: sum, y"}));
  EXPECT_EQ(steps(1, 1, false, Precision::fp32), (Steps{"conv2d: ", "conv2d: sum, y"}));
}

/// In 16 bits on Hopper, where one function is between the sums and the addition.
TEST(Fuse, AnAdditionBehindAFunctionIsTheConvolutions) {
  if (kernels<ConvSumProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const auto steps = [](const std::vector<const char*>& functions) {
    Graph g;
    Value y = g.add("conv", Conv2d({.in = 64, .out = 64, .kernel = 3, .padding = 1}), g.input("x", {batch, 64, 6, 6}));
    for (const char* const function : functions) y = op(g, function, {y});
    g.output(g.add("sum", Add(), {g.input("shortcut", {batch, 64, 6, 6}), y}));
    randomize(g);
    return fused(g, h200(), Precision::fp16).size();
  };
  EXPECT_EQ(steps({"LeakyRelu"}), 1u);
  EXPECT_EQ(steps({"Relu"}), 1u);
  EXPECT_EQ(steps({"LeakyRelu", "Tanh"}), 2u);
}

/// Where a kernel does both: in 16 bits, if the first is of single pixels and nobody else reads its result.
TEST(Fuse, AConvolutionAndTheDepthwiseOneBehindItAreOne) {
  if (kernels<ConvPairProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const auto steps = [](int kernel, int groups, bool read_twice, Precision precision) {
    Graph g;
    const Value x = g.input("x", {batch, 24, 14, 14});
    const Value a = g.add("a", Conv2d({.in = 24, .out = 96, .kernel = kernel, .padding = kernel / 2}), x);
    const Value b = g.add("b", Conv2d({.in = 96, .out = 96, .kernel = 3, .padding = 1, .groups = groups}),
                          g.add("relu", ReLU(), a));
    g.output(g.add("y", ReLU(), b));
    if (read_twice) g.output(a);
    randomize(g);
    return fused(g, h200(), precision);
  };
  using Steps = std::vector<std::string>;
  EXPECT_EQ(steps(1, 96, false, Precision::fp16), (Steps{"convolution and depthwise convolution: y, a, relu"}));
  EXPECT_EQ(steps(1, 96, false, Precision::bf16), (Steps{"convolution and depthwise convolution: y, a, relu"}));
  EXPECT_EQ(steps(1, 96, false, Precision::fp32), (Steps{"conv2d: relu", "conv2d: y"}));
  EXPECT_EQ(steps(3, 96, false, Precision::fp16), (Steps{"conv2d: relu", "conv2d: y"}));
  EXPECT_EQ(steps(1, 48, false, Precision::fp16), (Steps{"conv2d: relu", "conv2d: y"}));
  EXPECT_EQ(steps(1, 96, true, Precision::fp16), (Steps{"conv2d: ", "relu: ", "conv2d: y"}));
}

/// Where a kernel does all of it: in 16 bits on Hopper, whichever factor of the product is the image.
TEST(Fuse, SqueezeAndExcitationIsOne) {
  if (kernels<SqueezeExciteProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const auto steps = [](bool swapped, bool read_twice, Precision precision) {
    Graph g;
    const Value x = g.input("x", {batch, 32, 6, 6});
    const Value image = g.add("image", Conv2d({.in = 32, .out = 32, .kernel = 3, .padding = 1}), x);
    const Value means = g.add("means", AdaptiveAvgPool2d(1), image);
    const Value few = g.add("relu", ReLU(), g.add("few", Conv2d({.in = 32, .out = 8, .kernel = 1}), means));
    const Value factors =
        g.add("sigmoid", Op("Sigmoid"), {g.add("factors", Conv2d({.in = 8, .out = 32, .kernel = 1}), few)});
    g.output(
        g.add("y", std::make_shared<Op>("Mul"), swapped ? std::vector{factors, image} : std::vector{image, factors}));
    if (read_twice) g.output(means);
    randomize(g);
    return fused(g, h200(), precision);
  };
  using Steps = std::vector<std::string>;
  const Steps one = {"conv2d: ", "squeeze and excitation: means, few, relu, factors, sigmoid"};
  EXPECT_EQ(steps(false, false, Precision::fp16), one);
  EXPECT_EQ(steps(true, false, Precision::bf16), one);
  EXPECT_EQ(steps(false, false, Precision::fp32).size(), 5u);
  EXPECT_EQ(steps(false, true, Precision::fp16).size(), 5u);
}

}  // namespace
}  // namespace lamina::test::fuse_blocks_test
