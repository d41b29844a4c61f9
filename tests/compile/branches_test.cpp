// Linear branches of one value that are added are one convolution: which are, which are not, and its weights.

#include <cmath>
#include <limits>

#include "compile/fused.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/problems.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "support/devices.h"
#include "support/networks.h"

namespace lamina::test::branches_test {
namespace {

constexpr int channels = 6, side = 7;

struct Block {
  Graph g;
  Value x = g.input("x", {batch, channels, side, side});

  Value conv(const char* name, Conv2dOptions options, Value from) {
    options.in = channels, options.out = channels;
    return g.add(name, Conv2d(options), from);
  }
  Value norm(const char* name, Value from) { return g.add(name, BatchNorm2d({.channels = channels}), from); }
  Value sum(const char* name, Value a, Value b) { return g.add(name, Add(), {a, b}); }
  Value minus(Value a, Value b) { return op(g, "Sub", {a, b}); }
  Value times(Value a, unsigned seed) { return op(g, "Mul", {constant(g, random_tensor({channels, 1, 1}, seed)), a}); }

  Graph end(Value y) {
    g.output(g.add("y", ReLU(), y));
    randomize(g);
    for (const Graph::Node& node : g.nodes()) {  // variances are positive
      if (dynamic_cast<const BatchNorm2d*>(node.module.get()) == nullptr) continue;
      Tensor variance({channels});
      for (int c = 0; c < channels; ++c)
        variance.values<float>()[static_cast<std::size_t>(c)] = 0.5f + 0.25f * static_cast<float>(c);
      node.module->set_parameter("running_var", variance);
    }
    return std::move(g);
  }
};

Graph rep_vgg() {
  Block b;
  const Value wide = b.norm("norm3", b.conv("conv3", {.kernel = 3, .padding = 1, .bias = false}, b.x));
  const Value point = b.norm("norm1", b.conv("conv1", {.kernel = 1, .bias = false}, b.x));
  return b.end(b.sum("all", b.sum("two", wide, point), b.norm("norm0", b.x)));
}

/// Depthwise, several windows alike, one smaller; a norm behind them.
Graph mobile_one() {
  Block b;
  const Conv2dOptions window = {.kernel = {3, 5}, .padding = {1, 2}, .groups = channels};
  // A sum in a loop begins with 0.
  const Value first = op(b.g, "Add", {b.conv("a", window, b.x), constant(b.g, Tensor::zeros({}))});
  const Value two = b.sum("two", first, b.norm("norm", b.conv("b", window, b.x)));
  const Value three = b.sum("three", b.conv("point", {.kernel = 1, .groups = channels}, b.x), two);
  return b.end(b.norm("behind", b.sum("four", three, b.x)));
}

/// x + factors (branches - norm(x)), as FastViT's RepMixer.
Graph rep_mixer() {
  Block b;
  const Value mixed =
      b.sum("mixed", b.conv("a", {.kernel = 3, .padding = 1, .groups = channels}, b.x), b.norm("n", b.x));
  return b.end(b.sum("all", b.x, b.times(b.minus(mixed, b.norm("m", b.x)), 7)));
}

/// Groups within groups, a dilated window around another, every second pixel.
Graph others() {
  Block b;
  const auto conv = [&](const char* name, int kernel, int padding, int dilation, int groups) {
    return b.conv(name, {.kernel = kernel, .stride = 2, .padding = padding, .dilation = dilation, .groups = groups},
                  b.x);
  };
  const Value two = b.sum("two", conv("a", 5, 4, 2, 2), conv("b", 3, 2, 2, 6));
  return b.end(b.sum("three", two, conv("c", 1, 0, 1, 2)));
}

std::size_t operations(const Graph& graph) { return fused(graph).size(); }

TEST(Branches, AreOneConvolution) {
  for (const auto& make : {rep_vgg, mobile_one, rep_mixer, others}) {
    const Graph g = make();
    EXPECT_EQ(operations(g), 1u) << fused(g)[0];
    const Tensor x = random_tensor({2, channels, side, side}, 3);
    expect_same_unfused(g, 2, {x});
  }
  EXPECT_EQ(fused(rep_vgg())[0], "conv2d: two, norm3, conv3, norm1, conv1, norm0, y");
}

/// In float 2^24 + 1 - 2^24 is 0.
TEST(Branches, AreAddedInDoublePrecision) {
  Block b;
  const Conv2dOptions window = {.kernel = 1, .groups = channels, .bias = false};
  const Value large = b.conv("large", window, b.x);
  Graph g = b.end(b.minus(b.sum("sum", large, b.x), b.conv("same", window, b.x)));
  for (const Graph::Node& node : g.nodes()) {
    if (node.name != "large" && node.name != "same") continue;
    Tensor weight({channels, 1, 1, 1});
    for (float& value : weight.values<float>()) value = 16777216.0f;
    node.module->set_parameter("weight", weight);
  }
  ASSERT_EQ(operations(g), 1u);
  const Tensor x = random_tensor({1, channels, side, side}, 4);
  Plan plan = g.compile({.threads = 1});
  const Tensor y = plan.run({&x, 1})[0].clone();
  for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
    ASSERT_EQ(y.values<float>()[i], std::max(x.values<float>()[i], 0.0f));
  }
}

TEST(Branches, StayApartWhereTheyAreNotOne) {
  const auto apart = [](auto&& build) {
    Block b;
    return operations(b.end(build(b)));
  };
  // A corner of 3 x 3 that neither has would make NaN of an infinite pixel.
  EXPECT_EQ(apart([](Block& b) {
              return b.sum("s", b.conv("a", {.kernel = {1, 3}, .padding = {0, 1}}, b.x),
                           b.conv("b", {.kernel = {3, 1}, .padding = {1, 0}}, b.x));
            }),
            2u);
  // Nor is a depthwise window made dense for the sake of single pixels.
  EXPECT_EQ(apart([](Block& b) {
              return b.sum("s", b.conv("a", {.kernel = 3, .padding = 1, .groups = channels}, b.x),
                           b.conv("b", {.kernel = 1}, b.x));
            }),
            2u);
  // Another reads a branch; another value is read; something else lies between.
  EXPECT_EQ(apart([](Block& b) {
              const Value a = b.conv("a", {.kernel = 1}, b.x);
              b.g.output(a);
              return b.sum("s", a, b.conv("b", {.kernel = 1}, b.x));
            }),
            2u);
  EXPECT_EQ(apart([](Block& b) {
              const Value a = b.conv("a", {.kernel = 1}, b.x);
              return b.sum("s", b.conv("b", {.kernel = 1}, a), b.conv("c", {.kernel = 1}, b.x));
            }),
            3u);
  EXPECT_EQ(apart([](Block& b) {
              return b.sum("s", b.g.add("relu", ReLU(), b.conv("a", {.kernel = 1}, b.x)),
                           b.conv("b", {.kernel = 1}, b.x));
            }),
            2u);
}

/// Weights of which the sum is more than the type holds, or is none.
TEST(Branches, StayApartWhereTheSumHasNoWeight) {
  const auto with = [](float weight) {
    Block b;
    Graph g = b.end(b.sum("s", b.conv("a", {.kernel = 1}, b.x), b.conv("b", {.kernel = 1}, b.x)));
    for (const Graph::Node& node : g.nodes()) {
      if (node.name != "a" && node.name != "b") continue;
      Tensor weights({channels, channels, 1, 1});
      for (float& value : weights.values<float>()) value = weight;
      node.module->set_parameter("weight", weights);
    }
    return g;
  };
  EXPECT_EQ(operations(with(1e18f)), 1u);
  EXPECT_EQ(operations(with(3e38f)), 2u);
  EXPECT_EQ(operations(with(std::numeric_limits<float>::quiet_NaN())), 2u);
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  EXPECT_GE(fused(with(4e4f), h200(), Precision::fp16).size(), 2u);
  EXPECT_EQ(fused(with(4e4f), h200(), Precision::fp32).size(), 1u);
}

/// A chain of additions is not looked through again for each of them.
TEST(Branches, OfAChainAreManyConvolutions) {
  Block b;
  Value y = b.conv("first", {.kernel = 1}, b.x);
  for (int i = 0; i < 200; ++i) y = b.sum(("s" + std::to_string(i)).c_str(), y, b.x);
  const Graph g = b.end(y);
  EXPECT_LE(operations(g), 201u);
  const Tensor x = random_tensor({1, channels, side, side}, 5);
  const auto run = [&](bool fuse) {
    Plan plan = g.compile({.threads = 1, .fuse = fuse});
    return plan.run({&x, 1})[0].clone();
  };
  EXPECT_LT(relative_error(run(true), run(false)), 1e-6);
}

}  // namespace
}  // namespace lamina::test::branches_test
