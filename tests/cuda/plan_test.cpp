// Graphs and plans on a GPU; skipped where there is none.

#include "lamina/graph/plan.h"

#include <gtest/gtest.h>

#include "graph/networks.h"
#include "lamina/cuda/stream.h"
#include "lamina/tensor/device_memory.h"
#include "tensor/file_test.h"

namespace lamina {
namespace {

using test::branching_network;
using test::expect_error;
using test::random_tensor;

class CudaPlan : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.values<float>(), y = b.values<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(std::abs(x[i] - y[i]) <= 1e-4f + 1e-4f * std::abs(y[i]))
        << "element " << i << ": " << x[i] << " vs " << y[i];
  }
}

std::vector<Tensor> on_cpu(const Graph& graph, const std::vector<Tensor>& inputs) {
  Plan plan = graph.compile({.batch = inputs[0].shape()[0]});
  std::vector<Tensor> results;
  for (const Tensor& result : plan.run(inputs)) results.push_back(result.clone());
  return results;
}

TEST_F(CudaPlan, HostTensorsGoInAndComeBack) {
  const Graph graph = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({3, 3, 16, 16}, 5)};
  for (const bool fuse : {false, true}) {
    for (const bool keep_all : {false, true}) {
      Plan plan = graph.compile({.device = Device::cuda(), .batch = 3, .fuse = fuse, .keep_all = keep_all});
      for (int repeat = 0; repeat < 2; ++repeat) {
        const auto results = plan.run(inputs);
        const auto expected = on_cpu(graph, inputs);
        ASSERT_TRUE(results[0].device().is_cpu());
        expect_close(results[0], expected[0]);
        expect_close(results[1], expected[1]);
      }
      if (keep_all) expect_close(plan.activation("relu1").to(Device::cpu()), on_cpu(graph.until("relu1"), inputs)[0]);
    }
  }
}

TEST_F(CudaPlan, DeviceTensorsStayOnTheDeviceAndFollowTheStream) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = Device::cuda()});
  const std::vector<Tensor> host = {random_tensor({1, 3, 16, 16}, 5)};
  const std::vector<Tensor> device = {host[0].to(Device::cuda())};
  cuda::OwnedStream stream(0);
  const auto results = plan.run(device, stream.get());
  cuda::synchronize(0, stream.get());
  ASSERT_TRUE(results[0].device().is_cuda());
  expect_close(results[0].to(Device::cpu()), on_cpu(graph, host)[0]);
}

TEST_F(CudaPlan, RunIntoTheCallersMemoryOnEitherSide) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = Device::cuda()});
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const auto expected = on_cpu(graph, inputs);
  std::vector<Tensor> outputs = {Tensor(plan.output_shapes()[0], DType::f32, Device::cuda()),
                                 Tensor(plan.output_shapes()[1])};
  plan.run_into(inputs, outputs);
  expect_close(outputs[0].to(Device::cpu()), expected[0]);
  expect_close(outputs[1], expected[1]);
}

TEST_F(CudaPlan, EveryAlgorithmAndPrecisionAgreesWithTheCpu) {
  Graph graph;
  const Value x = graph.input("input", {batch, 3, 40, 36});
  graph.output(graph.add("conv", Conv2d({.in = 3, .out = 20, .kernel = 11, .stride = 4, .padding = 2}), x));
  test::randomize(graph);
  const std::vector<Tensor> inputs = {random_tensor({2, 3, 40, 36}, 5)};
  const Tensor expected = on_cpu(graph, inputs)[0];
  for (const ConvAlgorithm algorithm : conv_algorithms(DeviceType::cuda)) {
    Plan plan = graph.compile({.device = Device::cuda(), .batch = 2, .algorithm = algorithm});
    expect_close(plan.run(inputs)[0], expected);
  }
  for (const Precision precision : {Precision::tf32, Precision::fp16, Precision::bf16}) {
    Plan plan = graph.compile({.device = Device::cuda(), .batch = 2, .precision = precision});
    const Tensor result = plan.run(inputs)[0];
    const auto a = result.values<float>(), b = expected.values<float>();
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      error += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
    EXPECT_LT(std::sqrt(error / norm), precision == Precision::bf16 ? 6e-3 : 1e-3) << name(precision);
    EXPECT_GT(error, 0) << name(precision);  // it did compute in less than fp32
  }
}

TEST_F(CudaPlan, TheSameBitsTwice) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = Device::cuda()});
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const Tensor first = plan.run(inputs)[0].clone();
  const auto again = plan.run(inputs)[0].values<float>();
  EXPECT_TRUE(std::equal(again.begin(), again.end(), first.values<float>().begin()));
}

TEST_F(CudaPlan, AModelTooLargeIsAnErrorAndTheProcessGoesOn) {
  Graph graph;
  const Value x = graph.input("input", {batch, 1, 1024, 1024});
  graph.output(graph.add("conv", Conv2d({.in = 1, .out = 1024, .kernel = 1}), x));
  test::randomize(graph);
  // 64 batches of 1024 maps of 1024 x 1024 floats: 275 GB
  expect_error([&] { (void)graph.compile({.device = Device::cuda(), .batch = 64}); }, {"memory", "free"});
  const Graph small = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  Plan plan = small.compile({.device = Device::cuda()});
  expect_close(plan.run(inputs)[0], on_cpu(small, inputs)[0]);
}

TEST_F(CudaPlan, TensorsOnTheWrongDeviceAreRefusedWithAdvice) {
  Plan plan = test::small_network().compile();
  expect_error(
      [&] {
        plan.run(Tensor::zeros({1, 3, 12, 10}, DType::f32, Device::cuda()));
      },
      {"input", "on cuda:0", "move it with to("});
}

}  // namespace
}  // namespace lamina
