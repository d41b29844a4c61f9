// Graphs and plans on a GPU; skipped where there is none.

#include "lamina/plan/plan.h"

#include <optional>

#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/graph/model.h"
#include "lamina/layers/linear.h"
#include "lamina/tensor/device_memory.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::test::plan_test {
namespace {

class CudaPlan : public OnGpu {};
LAMINA_ON_GPUS(CudaPlan);

/// As close as tensor cores and a CPU are.
void expect_close(const Tensor& a, const Tensor& b) { test::expect_close(a, b, 1e-4f); }

std::vector<Tensor> on_cpu(const Graph& graph, const std::vector<Tensor>& inputs) {
  Plan plan = graph.compile({.batch = inputs[0].shape()[0]});
  std::vector<Tensor> results;
  for (const Tensor& result : plan.run(inputs)) results.push_back(result.clone());
  return results;
}

TEST_P(CudaPlan, HostTensorsGoInAndComeBack) {
  const Graph graph = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({3, 3, 16, 16}, 5)};
  for (const bool fuse : {false, true}) {
    for (const bool keep_all : {false, true}) {
      Plan plan = graph.compile({.device = gpu(), .batch = 3, .fuse = fuse, .keep_all = keep_all});
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

TEST_P(CudaPlan, DeviceTensorsStayOnTheDeviceAndFollowTheStream) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = gpu()});
  const std::vector<Tensor> host = {random_tensor({1, 3, 16, 16}, 5)};
  const std::vector<Tensor> device = {host[0].to(gpu())};
  cuda::OwnedStream stream(gpu().index);
  const auto results = plan.run(device, stream.get());
  cuda::synchronize(gpu().index, stream.get());
  ASSERT_TRUE(results[0].device().is_cuda());
  expect_close(results[0].to(Device::cpu()), on_cpu(graph, host)[0]);
}

TEST_P(CudaPlan, RunIntoTheCallersMemoryOnEitherSide) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = gpu()});
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const auto expected = on_cpu(graph, inputs);
  std::vector<Tensor> outputs = {Tensor(plan.output_shapes()[0], DType::f32, gpu()), Tensor(plan.output_shapes()[1])};
  plan.run_into(inputs, outputs);
  expect_close(outputs[0].to(Device::cpu()), expected[0]);
  expect_close(outputs[1], expected[1]);
}

TEST_P(CudaPlan, EveryAlgorithmAndPrecisionAgreesWithTheCpu) {
  Graph graph;
  const Value x = graph.input("input", {batch, 3, 40, 36});
  graph.output(graph.add("conv", Conv2d({.in = 3, .out = 20, .kernel = 11, .stride = 4, .padding = 2}), x));
  randomize(graph);
  const std::vector<Tensor> inputs = {random_tensor({2, 3, 40, 36}, 5)};
  const Tensor expected = on_cpu(graph, inputs)[0];
  for (const std::string_view algorithm : conv_algorithms(DeviceType::cuda)) {
    // They take other images only: stored channels last, of more channels, in 16 bits, codes. Each has its own tests.
    constexpr std::string_view others[] = {"channels_last", "depthwise", "map", "mma", "narrow", "planes", "stem"};
    if (std::ranges::count(others, algorithm) > 0 || algorithm.starts_with("int8")) continue;
    Plan plan = graph.compile({.device = gpu(), .batch = 2, .algorithm = std::string(algorithm)});
    expect_close(plan.run(inputs)[0], expected);
  }
  for (const Precision precision : {Precision::tf32, Precision::fp16, Precision::bf16}) {
    Plan plan = graph.compile({.device = gpu(), .batch = 2, .precision = precision});
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

TEST_P(CudaPlan, TheSameBitsTwice) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = gpu()});
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const Tensor first = plan.run(inputs)[0].clone();
  const auto again = plan.run(inputs)[0].values<float>();
  EXPECT_TRUE(std::equal(again.begin(), again.end(), first.values<float>().begin()));
}

/// Runs are replayed from a captured graph where their addresses come back: more addresses than a Plan remembers, in
/// turn and again, always give what running step by step gives.
TEST_P(CudaPlan, ReplayedRunsGiveTheSameBitsWhereverTheInputsAre) {
  const Graph graph = branching_network();
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    Plan plan = graph.compile({.device = gpu(), .batch = 2, .precision = precision});
    Plan plainly = graph.compile({.device = gpu(), .batch = 2, .precision = precision, .capture = false});
    std::vector<Tensor> host, device, expected;
    std::vector<std::vector<Tensor>> outputs;
    for (unsigned i = 0; i < 11; ++i) {
      host.push_back(random_tensor({2, 3, 16, 16}, i));
      device.push_back(host.back().to(gpu()));
      expected.push_back(plainly.run(std::vector<Tensor>{host.back()})[0].clone());
      outputs.push_back(
          {Tensor(plan.output_shapes()[0], DType::f32, gpu()), Tensor(plan.output_shapes()[1], DType::f32, gpu())});
    }
    cuda::OwnedStream stream(gpu().index);
    for (const std::size_t i : {0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 10, 10, 10, 9, 9, 9}) {
      EXPECT_TRUE(same_bits(plan.run(std::vector<Tensor>{host[i]})[0], expected[i])) << i;
      const std::vector<Tensor> inputs = {device[i]};
      const Tensor result = plan.run(inputs, stream.get())[0];
      cuda::synchronize(gpu().index, stream.get());
      EXPECT_TRUE(same_bits(result.to(Device::cpu()), expected[i])) << i;
      plan.run_into(inputs, outputs[i], stream.get());
      cuda::synchronize(gpu().index, stream.get());
      EXPECT_TRUE(same_bits(outputs[i][0].to(Device::cpu()), expected[i])) << i;
    }
    // New contents at an address that was captured long ago.
    device[0].copy_from(host[5]);
    plan.run_into(std::vector<Tensor>{device[0]}, outputs[0], stream.get());
    cuda::synchronize(gpu().index, stream.get());
    EXPECT_TRUE(same_bits(outputs[0][0].to(Device::cpu()), expected[5]));
  }
}

/// One linear layer of 64 MiB in fp32.
Graph heavy_network() {
  Graph graph;
  const Value x = graph.input("input", {batch, 4096});
  graph.output(graph.add("linear", Linear({.in = 4096, .out = 4096}), x));
  randomize(graph);
  return graph;
}

TEST_P(CudaPlan, PlansShareOneCopyOfTheWeights) {
  constexpr std::size_t weights = std::size_t{64} << 20;
  const Graph graph = heavy_network();
  Plan first = graph.compile({.device = gpu()});
  const std::size_t before = cuda::free_memory(gpu().index);
  {
    std::vector<Plan> plans;
    for (const std::int64_t n : {1, 2, 5, 8}) plans.push_back(graph.compile({.device = gpu(), .batch = n}));
    EXPECT_LT(before - cuda::free_memory(gpu().index), weights / 2);
    const Graph other = heavy_network();  // the same weights at other addresses
    plans.push_back(other.compile({.device = gpu()}));
    EXPECT_LT(before - cuda::free_memory(gpu().index), weights / 2);
    std::vector<Tensor> results(4);
    in_threads(results.size(), [&](std::size_t t) {
      Plan plan = graph.compile({.device = gpu()});
      const Tensor input = random_tensor({1, 4096}, 7);
      for (int i = 0; i < 5; ++i) results[t] = plan.run(input).clone();
    });
    for (const Tensor& result : results) EXPECT_TRUE(same_bits(result, results[0]));
    EXPECT_LT(before - cuda::free_memory(gpu().index), weights / 2);
    plans.push_back(graph.compile({.device = gpu(), .precision = Precision::fp16}));
    EXPECT_GT(before - cuda::free_memory(gpu().index), weights / 2 - 1);  // another copy: half the bytes
    first = std::move(plans.back());
  }
  EXPECT_GT(cuda::free_memory(gpu().index), before);  // all but the fp16 copy went with the last that used it
}

TEST_P(CudaPlan, MemoryIsKnownBeforeAnyIsTaken) {
  const Graph heavy = heavy_network();
  const Graph branching = branching_network();
  const Model model = load_model(std::string(LAMINA_TEST_DATA) + "/golden/tiny-alexnet.safetensors");
  for (const Graph* graph : {&heavy, &branching, &model.graph}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      for (const bool keep_all : {false, true}) {
        const CompileOptions options = {.device = gpu(), .batch = 20, .precision = precision, .keep_all = keep_all};
        const std::size_t before = cuda::free_memory(gpu().index);
        const PlanMemory expected = graph->plan_memory(options);
        // Kernels asked for their attributes are loaded, 2 MiB at a time; the heavy network's weights are 32 or 64.
        EXPECT_LT(before - cuda::free_memory(gpu().index), std::size_t{16} << 20);
        const PlanMemory memory = graph->compile(options).memory();
        EXPECT_EQ(expected.activations, memory.activations);
        EXPECT_EQ(expected.workspace, memory.workspace);
        EXPECT_EQ(expected.parameters, memory.parameters);
      }
    }
  }
}

TEST_P(CudaPlan, MayBeUsedWhileAnyDeviceIsCurrent) {
  const Graph graph = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const std::vector<Tensor> expected = on_cpu(graph, inputs);
  // As a fresh thread finds it, and with each other device current: made here, used there, gone in a third.
  std::optional<Plan> plan;
  std::thread([&] { plan.emplace(graph.compile({.device = gpu()})); }).join();
  for (int current = 0; current < detail::cuda_device_count(); ++current) {
    const cuda::DeviceGuard guard(current);
    for (int run = 0; run < 3; ++run) expect_close(plan->run(inputs)[0], expected[0]);
    EXPECT_EQ(plan->profile(inputs, 1).size(), plan->profile(inputs, 2).size());
    cuda::Event before(gpu().index), after(gpu().index);
    before.record(nullptr);
    after.record(nullptr);
    after.hold(nullptr);
    EXPECT_GE(cuda::Event::milliseconds(before, after), 0);
    int now = -1;
    ASSERT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, current);
  }
  std::thread([&] { plan.reset(); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(CudaPlan, ACallerMayCaptureARunHimself) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.device = gpu()});
  const Tensor host = random_tensor({1, 3, 16, 16}, 5);
  const std::vector<Tensor> inputs = {host.to(gpu())};
  std::vector<Tensor> outputs = {Tensor(plan.output_shapes()[0], DType::f32, gpu()),
                                 Tensor(plan.output_shapes()[1], DType::f32, gpu())};
  plan.run_into(inputs, outputs);
  plan.run_into(inputs, outputs);
  const cuda::CapturedGraph captured(gpu().index, [&](cuda::Stream stream) { plan.run_into(inputs, outputs, stream); });
  outputs[0].copy_from(Tensor::zeros(outputs[0].shape()));
  captured.launch(nullptr);
  cuda::synchronize(gpu().index, nullptr);
  expect_close(outputs[0].to(Device::cpu()), on_cpu(graph, {host})[0]);
}

TEST_P(CudaPlan, AModelTooLargeIsAnErrorAndTheProcessGoesOn) {
  Graph graph;
  const Value x = graph.input("input", {batch, 1, 1024, 1024});
  graph.output(graph.add("conv", Conv2d({.in = 1, .out = 1024, .kernel = 1}), x));
  randomize(graph);
  // 64 batches of 1024 maps of 1024 x 1024 floats: 275 GB
  expect_error([&] { (void)graph.compile({.device = gpu(), .batch = 64}); }, {"memory", "free"});
  const Graph small = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  Plan plan = small.compile({.device = gpu()});
  expect_close(plan.run(inputs)[0], on_cpu(small, inputs)[0]);
}

TEST_P(CudaPlan, TensorsOnTheWrongDeviceAreRefusedWithAdvice) {
  Plan plan = small_network().compile();
  expect_error(
      [&] {
        plan.run(Tensor::zeros({1, 3, 12, 10}, DType::f32, gpu()));
      },
      {"input", "on " + to_string(gpu()), "move it"});
}

}  // namespace
}  // namespace lamina::test::plan_test
