// Blocks of mobile and of residual networks on a GPU, several layers to a kernel, against the CPU layer by layer.

#include "lamina/layers/pool2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/on_gpu.h"
#include "support/plans/seeded_network.h"

namespace lamina::test::blocks_test {
namespace {

class CudaBlocks : public OnGpu {};
LAMINA_ON_GPUS(CudaBlocks);

/// A first layer and three blocks: with strides 1 and 2, a residual sum, squeeze and excitation, windows of 3 and 5.
Graph mobile(const char* function) {
  Graph g;
  const auto conv = [&](const std::string& name, Value x, const Conv2dOptions& o) { return g.add(name, Conv2d(o), x); };
  const auto finished = [&](const std::string& name, Value x) {
    return g.add(name + "." + function, Op(function), {x});
  };
  Value x = g.input("input", {batch, 3, 61, 57});
  x = finished("first", conv("first", x, {.in = 3, .out = 16, .kernel = 3, .stride = 2, .padding = 1}));
  const auto block = [&](const std::string& name, Value from, int in, int wide, int out, int kernel, int stride) {
    Value y = finished(name + ".widen", conv(name + ".widen", from, {.in = in, .out = wide}));
    y = finished(
        name + ".filter",
        conv(name + ".filter", y,
             {.in = wide, .out = wide, .kernel = kernel, .stride = stride, .padding = kernel / 2, .groups = wide}));
    const Value mean = g.add(name + ".mean", AdaptiveAvgPool2d(1), y);
    const Value few = g.add(name + ".relu", ReLU(), conv(name + ".squeeze", mean, {.in = wide, .out = wide / 4}));
    const Value factors =
        g.add(name + ".sigmoid", Op("Sigmoid"), {conv(name + ".excite", few, {.in = wide / 4, .out = wide})});
    y = conv(name + ".narrow", g.add(name + ".gate", Op("Mul"), {factors, y}), {.in = wide, .out = out});
    return stride == 1 && in == out ? g.add(name + ".sum", Add(), {y, from}) : y;
  };
  x = block("a", x, 16, 48, 24, 3, 2);
  x = block("b", x, 24, 96, 24, 5, 1);
  x = block("c", x, 24, 72, 40, 3, 1);
  g.output(g.add("end", AdaptiveAvgPool2d(1), x));
  seed_parameters(g);
  return g;
}

TEST_P(CudaBlocks, AreAsLayerByLayer) {
  for (const char* function : {"Relu", "HardSwish"}) {
    const Graph g = mobile(function);
    for (const std::int64_t images : {1, 5}) {
      const Tensor x = random_tensor({images, 3, 61, 57}, 3);
      const Tensor expected = g.compile({.batch = images, .threads = 1, .fuse = false}).run(x).clone();
      for (const bool before_hopper : {false, true}) {
        for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
          CompileOptions options = {.device = gpu(), .batch = images, .precision = precision};
          options.description = before_hopper ? as_ampere(describe(gpu())) : describe(gpu());
          Plan plan = g.compile(options);
          const bool narrow = size_of(storage_type(precision)) == 2;
          EXPECT_EQ(count(plan.summary(), "pair (mma.sync)"), narrow ? 3 : 0) << plan.summary();
          EXPECT_EQ(count(plan.summary(), "cluster of"), narrow && options.description->architecture >= 90 ? 3 : 0);
          const Tensor found = plan.run(x.clone()).clone();
          const double bound = precision == Precision::fp32 ? 2e-5 : precision == Precision::bf16 ? 3e-2 : 4e-3;
          EXPECT_LT(relative_error(found, expected), bound) << function << ", " << images << ", " << name(precision);
        }
      }
    }
  }
}

/// Four blocks with a narrow middle, of which two begin with a convolution in the shortcut; the third's wide map is
/// read by the caller too.
Graph residual() {
  Graph g;
  const auto conv = [&](const std::string& name, Value x, const Conv2dOptions& o) { return g.add(name, Conv2d(o), x); };
  const auto block = [&](const std::string& name, Value from, int in, int middle, int out, int stride) {
    Value x = g.add(name + ".a", ReLU(), conv(name + ".narrow", from, {.in = in, .out = middle}));
    x = g.add(name + ".b", ReLU(),
              conv(name + ".filter", x, {.in = middle, .out = middle, .kernel = 3, .stride = stride, .padding = 1}));
    x = conv(name + ".widen", x, {.in = middle, .out = out});
    const Value beside = in == out ? from : conv(name + ".shortcut", from, {.in = in, .out = out, .stride = stride});
    return g.add(name + ".c", ReLU(), g.add(name + ".sum", Add(), {x, beside}));
  };
  Value x = block("a", g.input("input", {batch, 64, 28, 28}), 64, 64, 256, 1);
  x = block("b", x, 256, 64, 256, 1);
  x = block("c", x, 256, 128, 512, 2);
  g.output(x);
  g.output(g.add("end", AdaptiveAvgPool2d(1), block("d", x, 512, 128, 512, 1)));
  seed_parameters(g);
  return g;
}

TEST_P(CudaBlocks, WideMapsAreNarrowedWhereTheyAre) {
  const Graph g = residual();
  constexpr std::int64_t images = 40;
  const Tensor x = random_tensor({images, 64, 28, 28}, 4);
  Plan plain = g.compile({.batch = images, .threads = 1, .fuse = false});
  const auto expected = plain.run({&x, 1});
  for (const bool invariant : {false, true}) {
    const CompileOptions options = {
        .device = gpu(), .batch = images, .precision = Precision::fp16, .batch_invariant = invariant};
    Plan plan = g.compile(options);
    const bool joined = describe(gpu()).wgmma && !invariant;
    EXPECT_TRUE(!joined || count(plan.summary(), "bottleneck") >= 2) << plan.summary();
    for (int run = 0; run < 3; ++run) {  // the third is a captured graph's
      const auto found = plan.run({&x, 1});
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LT(relative_error(found[i], expected[i]), 4e-3) << i;
    }
  }
}

// Needs no GPU.
TEST(WideMaps, AreNarrowedWhereThatPays) {
  const Graph g = residual();
  const auto joined = [&](const CompileOptions& options) { return count(g.plan_summary(options), "bottleneck"); };
  CompileOptions options = {
      .device = Device::cuda(), .batch = 256, .precision = Precision::fp16, .description = h200()};
  EXPECT_EQ(joined(options), 3);
  options.keep_all = true;
  EXPECT_EQ(joined(options), 0);
  options.keep_all = false, options.precision = Precision::bf16;
  EXPECT_EQ(joined(options), 0);
  options.precision = Precision::fp16, options.description = as_ampere(h200());
  EXPECT_EQ(joined(options), 0);
}

}  // namespace
}  // namespace lamina::test::blocks_test
