// What is planned for CPUs, with and without AMX; tests/cuda/plans_test.cpp has GPUs.

#include "support/plans/golden_plans.h"

namespace lamina::test::plans_test {
namespace {

/// With products of pairs of bf16, and with `amx` of tiles.
DeviceDescription avx512(bool amx) {
  return {.device = Device::cpu(), .instructions = InstructionSet::avx512, .avx512_bf16 = true, .amx_bf16 = amx};
}

/// Which engines a CPU has, this build and this machine decide, whatever a description says.
class CpuPlans : public testing::TestWithParam<std::string_view> {};

TEST_P(CpuPlans, OfAvx512AreAsWritten) {
  if (!describe(Device::cpu()).avx512_bf16) {
    GTEST_SKIP() << "this CPU has no products of pairs of bf16 that are fast";
  }
  using enum Precision;
  check_plans(std::string(GetParam()),
              {{"avx512", avx512(false), fp32, 1},
               {"avx512", avx512(false), fp32, 8},
               {"avx512", avx512(false), bf16, 1},
               {"avx512", avx512(false), bf16, 8}},
              {0, 3});
}

/// Recorded on an H200's host.
TEST_P(CpuPlans, OfAmxAreAsWritten) {
  const DeviceDescription here = describe(Device::cpu());
  if (!here.amx_bf16 || here.avx512_bf16) {
    GTEST_SKIP() << "this CPU has no AMX, or fast products of pairs of bf16 beside it";
  }
  if (!is_set("LAMINA_UPDATE_GOLDEN") && !is_recorded(std::string(GetParam()), "amx bf16 8")) {
    GTEST_SKIP() << "not recorded: LAMINA_TEST_LONG=1 LAMINA_UPDATE_GOLDEN=1 does that on such a CPU";
  }
  using enum Precision;
  check_plans(std::string(GetParam()), {{"amx", avx512(true), bf16, 1}, {"amx", avx512(true), bf16, 8}}, {1});
}

INSTANTIATE_TEST_SUITE_P(Networks, CpuPlans, testing::ValuesIn(structures),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace lamina::test::plans_test
