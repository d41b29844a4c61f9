

#include "lamina/layers/linear.h"
#include "lamina/plan/plan.h"
#include "support/allocations.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::bf16_test {
namespace {

// Precision bf16 on the CPU, whole networks.

TEST(PlanInBf16, IsCloseToFp32AndAllocatesNothing) {
  const Graph graph = test::branching_network();
  const std::vector<Tensor> inputs = {test::random_tensor({3, 3, 16, 16}, 5)};
  Plan exact = graph.compile({.device = Device::cpu(), .batch = 3, .threads = 2});
  Plan plan = graph.compile({.device = Device::cpu(), .batch = 3, .precision = Precision::bf16, .threads = 2});
  EXPECT_NE(plan.summary().find("bf16: "), std::string::npos) << plan.summary();
  const auto expected = exact.run(inputs), first = plan.run(inputs);
  for (std::size_t output = 0; output < expected.size(); ++output) {
    ASSERT_EQ(first[output].dtype(), DType::f32);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(expected[output].numel()); ++i) {
      const double y = expected[output].values<float>()[i], off = first[output].values<float>()[i] - y;
      error += off * off, size += y * y;
    }
    EXPECT_LT(std::sqrt(error / size), 0.02) << "output " << output;
    EXPECT_GT(error, 0) << "nothing was rounded";
  }
  const long before = test::allocations();
  plan.run(inputs);
  EXPECT_EQ(test::allocations() - before, 0);
}

TEST(PlanInBf16, DecidesWhatLinearWeightsAre) {
  const Graph graph = test::small_network();
  (void)graph.compile({.device = Device::cpu(), .precision = Precision::bf16, .linear_weights = DType::bf16});
  test::expect_error(
      [&] {
        (void)graph.compile({.device = Device::cpu(), .precision = Precision::bf16, .linear_weights = DType::f16});
      },
      {"linear_weights", "f16", "bf16"});
}

/// What `serve` promises: an image alone and among others, in every precision.
TEST(PlanInBf16, AnImagesBitsDoNotDependOnThoseBesideIt) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 9, 9});
  const Value c = g.add("conv", Conv2d({.in = 3, .out = 40, .kernel = 3, .padding = 1}), x);
  const Value f = g.add("flat", Flatten(), g.add("relu", ReLU(), c));
  g.output(g.add("second", Linear({.in = 70, .out = 11}), g.add("first", Linear({.in = 3240, .out = 70}), f)));
  test::randomize(g);
  constexpr std::int64_t images = 19;
  const Tensor all = test::random_tensor({images, 3, 9, 9}, 8);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Plan many = g.compile({.device = Device::cpu(), .batch = images, .precision = precision, .threads = 2});
    Plan one = g.compile({.device = Device::cpu(), .precision = precision, .threads = 1});
    const Tensor together = many.run(all).clone();
    for (std::int64_t n = 0; n < images; ++n) {
      const Tensor alone = one.run(all.slice(n, n + 1)).clone();
      ASSERT_TRUE(std::ranges::equal(alone.values<float>(), together.slice(n, n + 1).values<float>()))
          << name(precision) << ", image " << n;
    }
  }
}

}  // namespace
}  // namespace lamina::bf16_test
