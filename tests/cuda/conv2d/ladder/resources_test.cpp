// How the textbook kernels run: the same every time, in graphs, within limits, and what they refuse.

#include <limits>

#include "cuda/conv2d/ladder/harness.h"

namespace lamina::test {
namespace {

TEST_F(CudaConv2d, GivesTheSameBitsEveryRun) {
  for (const ConvGeometry& g : {alexnet_conv1(reduced() ? 1 : 5), geometry_of(square(2, 48, 9, 9, 32, 5, 1, 2, 1, 2)),
                                geometry_of(square(1, 520, 4, 4, 6, 3, 1, 1))}) {
    const Problem problem(g, Values::mixed, true);
    const cuda::OwnedStream stream(0);
    for (const ConvAlgorithm algorithm : textbook) {
      const auto kernel = problem.prepare({.algorithm = algorithm});
      const auto first = run(*kernel, g, problem.device_x.data());
      const auto again = run(*problem.prepare({.algorithm = algorithm}), g, problem.device_x.data(), stream.get());
      ASSERT_EQ(first.size(), again.size());
      EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0) << kernel->description();
    }
  }
}

TEST_F(CudaConv2d, RunsInsideACapturedGraph) {
  Problem problem(geometry_of(square(3, 6, 10, 11, 9, 3, 1, 1, 1, 3)), Values::mixed, true);
  for (const ConvAlgorithm algorithm : textbook) {
    const auto kernel = problem.prepare({.algorithm = algorithm, .relu = true});
    const Guarded output(problem.g.output_size());
    const Guarded workspace(static_cast<std::int64_t>((kernel->workspace_bytes() + 3) / 4));
    const cuda::CapturedGraph graph(
        0, [&](cuda::Stream stream) { kernel->run(problem.device_x.data(), output.data(), workspace.data(), stream); });
    const cuda::OwnedStream stream(0);
    graph.launch(stream.get());
    graph.launch(stream.get());
    cuda::synchronize(0, stream.get());
    EXPECT_TRUE(within_contract(output.values(), problem, Precision::fp32, true)) << kernel->description();
  }
}

TEST_F(CudaConv2d, KeepsToTheWorkspaceLimit) {
  Problem problem(alexnet_conv1(reduced() ? 1 : 5, 64), Values::mixed, true);
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct_padded, ConvAlgorithm::im2col}) {
    std::size_t previous = std::numeric_limits<std::size_t>::max();
    for (const std::size_t limit : {std::size_t{256} << 20, std::size_t{6} << 20, std::size_t{1} << 20}) {
      const auto kernel = problem.prepare({.algorithm = algorithm, .workspace_limit = limit});
      EXPECT_EQ(kernel->algorithm(), algorithm);
      EXPECT_LE(kernel->workspace_bytes(), limit);
      EXPECT_LE(kernel->workspace_bytes(), previous);
      previous = kernel->workspace_bytes();
      EXPECT_TRUE(within_contract(run(*kernel, problem.g, problem.device_x.data()), problem, Precision::fp32, false))
          << kernel->description();
    }
  }
  // Too little for any slice: one says so, the other does without.
  EXPECT_THROW(problem.prepare({.algorithm = ConvAlgorithm::im2col, .workspace_limit = 1000}), Error);
  const auto kernel = problem.prepare({.algorithm = ConvAlgorithm::direct_padded, .workspace_limit = 1000});
  EXPECT_EQ(kernel->algorithm(), ConvAlgorithm::direct);
  EXPECT_EQ(kernel->workspace_bytes(), 0u);
  EXPECT_NE(kernel->description().find("limit"), std::string::npos) << kernel->description();
}

TEST_F(CudaConv2d, RefusesWhatNoKernelCanDo) {
  const Problem problem(geometry_of(square(1, 2, 5, 5, 2, 3)), Values::mixed, false);
  const auto error_of = [&](const Conv2dOptions& options) -> std::string {
    try {
      problem.prepare(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({.algorithm = ConvAlgorithm::eigen}).find("tiled"), std::string::npos);
  EXPECT_NE(error_of({.precision = Precision::fp16, .algorithm = ConvAlgorithm::tiled}).find("implicit_gemm"),
            std::string::npos);
  EXPECT_NE(error_of({.precision = Precision::tf32, .algorithm = ConvAlgorithm::direct}).find("im2col"),
            std::string::npos);
  EXPECT_NE(error_of({.algorithm = ConvAlgorithm::direct, .output = DType::f16}).find("f16"), std::string::npos);
  EXPECT_NE(error_of({.device = 4711}).find("cuda:4711"), std::string::npos);
}

TEST_F(CudaConv2d, GoesOnAfterRunningOutOfMemory) {
  Problem problem(geometry_of(square(1, 4096, 1, 1, 4096, 1)), Values::mixed, false);  // 64 MiB of weights
  {
    std::vector<Buffer> all;
    for (std::size_t bytes = std::size_t{16} << 30; bytes >= (std::size_t{2} << 20) && all.size() < 2000;) {
      try {
        all.emplace_back(0, bytes);
      } catch (const Error&) {
        bytes /= 2;
      }
    }
    for (const ConvAlgorithm algorithm : textbook) EXPECT_THROW(problem.prepare({.algorithm = algorithm}), Error);
  }
  const auto kernel = problem.prepare({.algorithm = ConvAlgorithm::tiled});
  EXPECT_TRUE(within_contract(run(*kernel, problem.g, problem.device_x.data()), problem, Precision::fp32, false));
}

}  // namespace
}  // namespace lamina::test
