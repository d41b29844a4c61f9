// Maps of Maps, as a Plan makes them: the whole network answers what it answers with no step part of another.

#include "lamina/tensor/device_memory.h"
#include "support/networks.h"
#include "support/plans/golden_plans.h"

namespace lamina::test::joined_test {
namespace {

Tensor answer(const Graph& graph, const CompileOptions& options) {
  Plan plan = graph.compile(options);
  Tensor input(plan.input_shapes()[0]);
  draw(input, 1000, 0, 1);
  const Tensor first = plan.run(input).to(Device::cpu()).clone(), again = plan.run(input).to(Device::cpu());
  EXPECT_EQ(fnv1a(first.raw(), first.bytes()), fnv1a(again.raw(), again.bytes())) << "other bits in another run";
  return first;
}

TEST(JoinedMaps, AnswerAsApart) {
  if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  for (const char* name : {"skresnet18", "focalnet_tiny_srf", "swin_t", "shufflenet_v2_x1_0"}) {
    const Graph graph = structured_network(name);
    for (const std::int64_t images : {1, 3}) {
      const CompileOptions together = {.device = Device::cuda(), .batch = images};
      CompileOptions apart = together;
      apart.fuse = false;
      EXPECT_LT(relative_error(answer(graph, together), answer(graph, apart)), 1e-4) << name << ", " << images;
    }
  }
}

}  // namespace
}  // namespace lamina::test::joined_test
