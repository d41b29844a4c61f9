#include <gtest/gtest.h>

#include <cmath>

#include "lamina/plan/plan.h"
#include "plan/allocation_counter.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina {
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

}  // namespace
}  // namespace lamina
