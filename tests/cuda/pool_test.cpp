// Pools of plans on every GPU there is; skipped where there is none.

#include "lamina/pool/plan_pool.h"

#include <utility>

#include "lamina/cuda/runtime/device.h"
#include "lamina/tensor/device_memory.h"
#include "support/networks.h"

namespace lamina::test::pool_test {
namespace {

class CudaPool : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

TEST_F(CudaPool, AllDevicesAndTheCpuAgree) {
  const Graph graph = branching_network();
  std::vector<Device> devices = parse_devices("cuda:all");
  EXPECT_EQ(static_cast<int>(devices.size()), detail::cuda_device_count());
  devices.push_back(Device::cpu());
  PlanPool pool(graph, {.threads = 1}, {.devices = devices, .batches = {1, 4}});
  EXPECT_EQ(pool.workers().size(), 2 * devices.size() - 1);
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < 8; ++i) inputs.push_back(random_tensor({1 + i % 4, 3, 16, 16}, i));
  std::vector<std::future<std::vector<Tensor>>> answers;
  std::vector<Tensor> expected;
  for (const Tensor& input : inputs) {
    Plan alone = graph.compile({.batch = input.shape()[0], .threads = 1});
    expected.push_back(alone.run({&input, 1})[0].clone());
  }
  for (std::size_t i = 0; i < 200; ++i) answers.push_back(pool.submit({inputs[i % inputs.size()]}));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Tensor got = answers[i].get()[0];
    ASSERT_TRUE(got.device().is_cpu());
    const auto x = got.values<float>(), y = std::as_const(expected[i % inputs.size()]).values<float>();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_LE(std::abs(x[k] - y[k]), 1e-4f + 1e-4f * std::abs(y[k]));
  }
  std::int64_t images = 0;
  for (const PoolWorker& worker : pool.workers()) images += worker.images;
  EXPECT_EQ(images, 200 / 4 * (1 + 2 + 3 + 4));
}

TEST_F(CudaPool, PlansOfOneDeviceShareTheirWeights) {
  Graph graph;
  const Value x = graph.input("x", {batch, 1, 64, 64});
  graph.output(graph.add("conv", Conv2d({.in = 1, .out = 4096, .kernel = 64}), x));  // 64 MiB of weights
  randomize(graph);
  constexpr std::size_t weights = std::size_t{64} << 20;
  const int last = detail::cuda_device_count() - 1;
  (void)graph.compile({.device = Device::cuda(last)});  // the context and the kernels are there
  const std::size_t before = cuda::free_memory(last);
  const PlanPool pool(graph, {}, {.devices = {Device::cuda(last)}, .plans_per_device = 3, .batches = {1, 8}});
  EXPECT_LT(before - cuda::free_memory(last), 2 * weights);
}

}  // namespace
}  // namespace lamina::test::pool_test
