// How the textbook kernels run: the same every time, in graphs, within limits, and what they refuse.

#include "cuda/conv2d/ladder/harness.h"

namespace lamina::test::resources_test {
namespace {

TEST_F(CudaConv2d, GivesTheSameBitsEveryRun) {
  for (const ConvGeometry& g : {alexnet_conv1(reduced() ? 1 : 5), geometry_of(square(2, 48, 9, 9, 32, 5, 1, 2, 1, 2)),
                                geometry_of(square(1, 520, 4, 4, 6, 3, 1, 1))}) {
    const Convolution convolution(g, Values::mixed, true);
    const cuda::OwnedStream stream(0);
    for (const std::string_view name : textbook) {
      const Prepared kernel = convolution.prepare({.kernel = name});
      const auto first = run_bytes(kernel, convolution.data.x);
      EXPECT_EQ(run_bytes(convolution.prepare({.kernel = name}), convolution.data.x, stream.get()), first)
          << kernel.op->description();
    }
  }
}

TEST_F(CudaConv2d, RunsInsideACapturedGraph) {
  Convolution convolution(geometry_of(square(3, 6, 10, 11, 9, 3, 1, 1, 1, 3)), Values::mixed, true);
  for (const std::string_view name : textbook) {
    const KernelOptions options = {.kernel = name, .relu = true};
    const Prepared kernel = convolution.prepare(options);
    const GuardedBuffer input(to_bytes(convolution.data.x, kernel.input.shape, kernel.input.format));
    const GuardedBuffer output(kernel.output_bytes()), workspace(kernel.op->workspace_bytes());
    const cuda::CapturedGraph graph(
        0, [&](cuda::Stream stream) { kernel.enqueue(input.data(), output.data(), workspace.data(), stream); });
    const cuda::OwnedStream stream(0);
    graph.launch(stream.get());
    graph.launch(stream.get());
    cuda::synchronize(0, stream.get());
    convolution.expect(to_values(output.read(), kernel.output.shape, kernel.output.format), options, *kernel.op);
  }
}

TEST_F(CudaConv2d, KeepsToTheWorkspaceLimit) {
  Convolution convolution(alexnet_conv1(reduced() ? 1 : 5, 64), Values::mixed, true);
  for (const std::string_view name : {"direct_padded", "im2col"}) {
    std::size_t previous = std::numeric_limits<std::size_t>::max();
    for (const std::size_t limit : {std::size_t{256} << 20, std::size_t{6} << 20, std::size_t{1} << 20}) {
      const KernelOptions options = {.kernel = name, .workspace_limit = limit};
      const Prepared kernel = convolution.prepare(options);
      EXPECT_EQ(kernel_name(*kernel.op), name);
      EXPECT_LE(kernel.op->workspace_bytes(), limit);
      EXPECT_LE(kernel.op->workspace_bytes(), previous);
      previous = kernel.op->workspace_bytes();
      convolution.expect(run(kernel, convolution.data.x), options, *kernel.op);
    }
  }
  // Too little for any slice: one says so, the other does without.
  EXPECT_THROW(convolution.prepare({.kernel = "im2col", .workspace_limit = 1000}), Error);
  const Prepared kernel = convolution.prepare({.kernel = "direct_padded", .workspace_limit = 1000});
  EXPECT_EQ(kernel_name(*kernel.op), "direct");
  EXPECT_EQ(kernel.op->workspace_bytes(), 0u);
  EXPECT_NE(kernel.op->description().find("limit"), std::string::npos) << kernel.op->description();
}

TEST_F(CudaConv2d, RefusesWhatNoKernelCanDo) {
  const Convolution convolution(geometry_of(square(1, 2, 5, 5, 2, 3)), Values::mixed, false);
  const DeviceDescription here = lamina::describe(Device::cuda());
  const auto error_of = [&](const KernelOptions& options, const DeviceDescription& device) -> std::string {
    try {
      (void)Task(convolution.g, options, device).prepare(convolution.data, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({.kernel = "eigen"}, here).find("algorithm eigen on cuda:0 does not take"), std::string::npos);
  EXPECT_NE(error_of({.kernel = "eigen"}, here).find("tiled"), std::string::npos);
  EXPECT_NE(error_of({.kernel = "tiled", .precision = Precision::fp16, .output = {DType::f32, Layout::nhwc}}, here)
                .find("implicit_gemm"),
            std::string::npos);
  EXPECT_NE(error_of({.kernel = "direct", .precision = Precision::tf32}, here).find("im2col"), std::string::npos);
  EXPECT_NE(error_of({.kernel = "direct", .output = {DType::f16}}, here).find("f16"), std::string::npos);
  DeviceDescription missing = here;
  missing.device = Device::cuda(4711);
  EXPECT_NE(error_of({.kernel = "direct"}, missing).find("cuda:4711"), std::string::npos);
  EXPECT_THROW((void)lamina::describe(Device::cuda(4711)), Error);
}

TEST_F(CudaConv2d, GoesOnAfterRunningOutOfMemory) {
  Convolution convolution(geometry_of(square(1, 4096, 1, 1, 4096, 1)), Values::mixed, false);  // 64 MiB of weights
  {
    std::vector<cuda::Buffer> all;
    for (std::size_t bytes = std::size_t{16} << 30; bytes >= (std::size_t{2} << 20) && all.size() < 2000;) {
      try {
        all.emplace_back(0, bytes);
      } catch (const Error&) {
        bytes /= 2;
      }
    }
    for (const std::string_view name : textbook) EXPECT_THROW(convolution.prepare({.kernel = name}), Error);
  }
  convolution.expect({.kernel = "tiled"});
}

}  // namespace
}  // namespace lamina::test::resources_test
