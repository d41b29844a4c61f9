// Steps of branches that do not need each other, at the same time.

#include "lamina/layers/pool2d.h"
#include "support/devices.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::test::neighbours_test {
namespace {

Value convolved(Graph& g, const std::string& name, Value x, int in, int out, int kernel) {
  return g.add(name + ".relu", ReLU(),
               g.add(name, Conv2d({.in = in, .out = out, .kernel = kernel, .padding = kernel / 2}), x));
}

/// Branches as GoogLeNet's, one behind the other; the last also reads what the first begins with.
Graph branches() {
  Graph g;
  Value x = convolved(g, "stem", g.input("input", {batch, 8, 14, 15}), 8, 64, 1);
  int channels = 64;
  for (const std::string name : {"a", "b", "c"}) {
    const Value one = convolved(g, name + ".1", x, channels, 40, 1);
    const Value three = convolved(g, name + ".3", convolved(g, name + ".3x", x, channels, 24, 1), 24, 72, 3);
    const Value five = convolved(g, name + ".5", convolved(g, name + ".5x", x, channels, 16, 1), 16, 32, 3);
    const Value pooled = g.add(name + ".pool", MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}), x);
    x = g.add(name, Concat(1), {one, three, five, convolved(g, name + ".p", pooled, channels, 48, 1)});
    channels = 40 + 72 + 32 + 48;
  }
  g.output(convolved(g, "head", x, channels, 16, 3));
  randomize(g);
  for (const Graph::Node& node : g.nodes()) {  // what 16 bits hold
    if (node.module == nullptr) continue;
    for (const auto& parameter : node.module->parameters()) {
      Tensor smaller = parameter.value.clone();
      const auto terms = static_cast<float>(smaller.numel() / smaller.shape()[0]);
      for (float& value : smaller.values<float>()) value /= std::sqrt(terms);
      node.module->set_parameter(parameter.name, smaller);
    }
  }
  return g;
}

constexpr const char* beside = "beside";  // the step before: lines may end in between

// Of seven steps of a module two begin something: what reads its input, and what reads that.
TEST(Neighbours, BranchesStandSideBySide) {
  CompileOptions options = {.device = Device::cuda(), .batch = 2, .precision = Precision::fp16};
  options.description = h200();
  EXPECT_EQ(count(branches().plan_summary(options), beside), 3 * 5);
  options.keep_all = true;
  EXPECT_EQ(count(branches().plan_summary(options), beside), 0);
  options.keep_all = false, options.description = a100();
  EXPECT_EQ(count(branches().plan_summary(options), beside), 0);
}

class CudaNeighbours : public OnGpu {};
LAMINA_ON_GPUS(CudaNeighbours);

TEST_P(CudaNeighbours, GiveTheSameBitsInEveryRun) {
  const Graph graph = branches();
  for (const std::int64_t images : {1, 40}) {
    const Tensor x = random_tensor(graph.compile({.batch = images}).input_shapes()[0], 3);
    const Tensor expected = graph.compile({.batch = images, .threads = 1, .fuse = false}).run(x).clone();
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      Plan plan = graph.compile({.device = gpu(), .batch = images, .precision = precision});
      const Tensor first = plan.run(x).clone();
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
        const double a = first.values<float>()[i], b = expected.values<float>()[i];
        error += (a - b) * (a - b), norm += b * b;
      }
      EXPECT_LT(std::sqrt(error / norm), precision == Precision::fp32   ? 2e-5
                                         : precision == Precision::bf16 ? 3e-2
                                                                        : 4e-3)
          << name(precision) << '\n'
          << plan.summary();
      for (int run = 0; run < 20; ++run) {
        ASSERT_EQ(std::memcmp(plan.run(x).raw(), first.raw(), first.bytes()), 0) << name(precision) << ", run " << run;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::neighbours_test
