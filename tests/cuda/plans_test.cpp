// What is planned for GPUs that need not be there; tests/compile/plans_test.cpp has CPUs.

#include "lamina/compile/passes.h"
#include "lamina/cuda/runtime/architectures.h"
#include "lamina/layers/softmax.h"
#include "support/devices.h"
#include "support/plans/golden_plans.h"

namespace lamina::test::plans_test {
namespace {

class GpuPlans : public testing::TestWithParam<std::string_view> {
 protected:
  static void check(const std::string& device, const DeviceDescription& description) {
    using enum Precision;
    check_plans(std::string(GetParam()),
                {{device, description, fp32, 1},
                 {device, description, fp32, 32},
                 {device, description, fp16, 1},
                 {device, description, fp16, 32}},
                {0, 3});
  }
};

TEST_P(GpuPlans, OfAnH200AreAsWritten) {
  if (!cuda::compiled_for_90a()) GTEST_SKIP() << "this build has no sm_90a code";
  check("h200", h200());
}

TEST_P(GpuPlans, OfAnA100AreAsWritten) { check("a100", a100()); }

TEST(KernelTexts, AreThoseThatAPlanNeedsWithTheStepsThatRunThem) {
  Graph g;
  Value x = g.input("x", {1, 64, 56, 56});
  for (const std::string name : {"first", "second"}) x = g.add(name, Softmax(-1), x);
  g.output(x);
  const auto texts = detail::kernel_texts(g, {.device = Device::cuda(), .fuse = false, .description = h200()});
  ASSERT_EQ(texts.size(), 1u);  // of two steps, as nothing in it differs
  EXPECT_EQ(texts[0].steps, (std::vector<std::string>{"first", "second"}));
  EXPECT_NE(texts[0].text.find(".entry"), std::string::npos) << texts[0].text;
  EXPECT_TRUE(detail::kernel_texts(g, {.threads = 1}).empty());
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuPlans, testing::ValuesIn(structures),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace lamina::test::plans_test
