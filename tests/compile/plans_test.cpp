// What is planned for CPUs that need not be there; tests/cuda/plans_test.cpp has GPUs.

#include "support/plans/golden_plans.h"

namespace lamina::test {
namespace {

/// With products of pairs of bf16, and with `amx` of tiles.
DeviceDescription avx512(bool amx) {
  return {.device = Device::cpu(), .instructions = InstructionSet::avx512, .avx512_bf16 = true, .amx_bf16 = amx};
}

class CpuPlans : public testing::TestWithParam<std::string_view> {};

TEST_P(CpuPlans, AreAsWritten) {
  if (describe(Device::cpu()).instructions != InstructionSet::avx512) GTEST_SKIP() << "weights are packed by AVX-512";
  using enum Precision;
  check_plans(std::string(GetParam()),
              {{"avx512", avx512(false), fp32, 1},
               {"avx512", avx512(false), fp32, 8},
               {"avx512", avx512(false), bf16, 1},
               {"avx512", avx512(false), bf16, 8},
               {"amx", avx512(true), bf16, 1},
               {"amx", avx512(true), bf16, 8}},
              {0, 5});
}

INSTANTIATE_TEST_SUITE_P(Networks, CpuPlans, testing::ValuesIn(structures),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace lamina::test
