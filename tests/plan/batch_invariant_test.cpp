// An image's bits do not depend on its batch, on the CPU, in fp32 and in bf16: as the machine is, and with less.

#include "lamina/kernel/device_description.h"
#include "support/batches.h"

namespace lamina::batch_invariant_test {
namespace {

constexpr std::int64_t batches[] = {1, 3, 8, 32};

class BatchInvariant : public testing::TestWithParam<Precision> {
 protected:
  /// On one thread and on two, as the processor is and as one with narrower vectors.
  static void check(const Graph& graph) {
    DeviceDescription narrower = describe(Device::cpu());
    narrower.instructions = std::max(narrower.instructions, InstructionSet::avx2);
    narrower.avx512_bf16 = narrower.amx_bf16 = false;
    test::expect_no_bit_depends_on_the_batch(graph, {.precision = GetParam(), .threads = 1}, batches);
    test::expect_no_bit_depends_on_the_batch(graph, {.precision = GetParam(), .threads = 2, .description = narrower},
                                             batches);
  }
};

TEST_P(BatchInvariant, LayersOfImages) { check(test::every_layer_of_images()); }
TEST_P(BatchInvariant, LayersOfTokens) { check(test::every_layer_of_tokens()); }

INSTANTIATE_TEST_SUITE_P(Cpu, BatchInvariant, testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

}  // namespace
}  // namespace lamina::batch_invariant_test
