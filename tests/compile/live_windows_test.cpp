// Taps that see nothing but padding are no part of a plan.

#include "compile/fused.h"
#include "lamina/layers/elementwise.h"
#include "support/networks.h"

namespace lamina::test::live_windows_test {
namespace {

constexpr int side = 9;

/// Three branches of one image, as DeepLabV3's, joined.
Graph branches() {
  Graph g;
  const Value x = g.input("input", {batch, 8, side, side});
  std::vector<Value> joined;
  for (const int dilation : {4, 8, 9}) {
    const std::string name = detail::concat("dilation", dilation);
    const Value y =
        g.add(name, Conv2d({.in = 8, .out = 16, .kernel = 3, .padding = dilation, .dilation = dilation}), x);
    joined.push_back(g.add(name + "_relu", ReLU(), y));
  }
  g.output(g.add("joined", Concat(1), {joined[0], joined[1], joined[2]}));
  randomize(g);
  return g;
}

std::vector<Size2d> kernels_of(const Graph& graph, CompileOptions options) {
  detail::settle_options(graph, options);
  const detail::Program program = program_before("formats", graph, options);
  std::vector<Size2d> result;
  for (const auto& op : program.operations) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(op.module.get())) result.push_back(conv->options().kernel);
  }
  return result;
}

TEST(LiveWindows, AreWhatIsLeftOfConvolutions) {
  const Graph g = branches();
  EXPECT_EQ(kernels_of(g, {}), (std::vector<Size2d>{3, 3, 1}));
  CompileOptions plain;
  plain.keep_all = true;
  EXPECT_EQ(kernels_of(g, plain), (std::vector<Size2d>{3, 3, 3}));
}

TEST(LiveWindows, ComputeTheSame) {
  const Graph g = branches();
  const Tensor x = random_tensor({2, 8, side, side}, 3);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto run = [&](bool fuse) {
      Plan plan = g.compile({.batch = 2, .precision = precision, .threads = 1, .fuse = fuse});
      return plan.run({&x, 1})[0].clone();
    };
    const Tensor narrow = run(true), whole = run(false);
    const double tolerance = precision == Precision::fp32 ? 1e-5 : 4e-2;
    for (std::size_t i = 0; i < narrow.values<float>().size(); ++i) {
      ASSERT_NEAR(narrow.values<float>()[i], whole.values<float>()[i], tolerance) << i;
    }
  }
}

}  // namespace
}  // namespace lamina::test::live_windows_test
