// Grids and tensors past what 16 and 32 bits count.

#include "cuda/conv2d/ladder/harness.h"
#include "lamina/cuda/runtime/device.h"

namespace lamina::test::large_test {
namespace {

TEST_F(CudaConv2d, GridsPast65535) {
  if (reduced()) GTEST_SKIP() << "large";
  check_all(geometry_of(square(70'001, 2, 3, 3, 2, 3, 1, 1)), Values::mixed, true, false);
  check_all(geometry_of(square(1, 3, 2, 2, 70'001, 1)), Values::mixed, true, true);
  check_all(geometry_of(square(1, 70'001, 2, 2, 70'001, 1, 1, 0, 1, 70'001)), Values::mixed, false, false);
  check_all(geometry_of(square(1, 1, 140'000, 3, 2, 3, 2, 1)), Values::mixed, true, false);
}

/// A convolution whose input or output exceeds 2^31 elements, with every input channel alike, checked at samples.
void check_large(const ConvGeometry& g) {
  const auto needed =
      static_cast<std::size_t>(g.input_size() + g.output_size()) * sizeof(float) + (std::size_t{2} << 30);
  if (cuda::device_info(0).memory_bytes < needed) GTEST_SKIP() << "needs " << (needed >> 30) << " GiB of device memory";
  const auto plane_bytes = static_cast<std::size_t>(g.in_pixels()) * sizeof(float);
  std::vector<float> plane(static_cast<std::size_t>(g.in_pixels()));
  std::uint32_t state = 12345;
  for (float& x : plane) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  const ConvData data = {{}, draw(g.weight_size(), Values::mixed, 2), draw(g.out_channels, Values::mixed, 3)};
  const cuda::Buffer input(0, static_cast<std::size_t>(g.input_size()) * sizeof(float));
  for (std::int64_t c = 0; c < g.batch * g.in_channels; ++c) {
    cuda::upload(0, input.as<float>() + c * g.in_pixels(), plane.data(), plane_bytes, nullptr);
  }
  const cuda::Buffer output(0, static_cast<std::size_t>(g.output_size()) * sizeof(float));
  // The reference for one channel of a window: all channels hold the same plane.
  ConvGeometry one = g;
  one.in_channels = 1;
  for (const std::string_view name : textbook) {
    const Prepared kernel = prepare(g, {.kernel = name}, data, true);
    const cuda::Buffer workspace(0, kernel.op->workspace_bytes());
    cuda::fill_bytes(0, output.data(), 0xff, output.bytes(), nullptr);
    kernel.enqueue(input.data(), output.data(), workspace.data(), nullptr);
    cuda::synchronize(0, nullptr);
    std::uint64_t sample = 99;
    for (int i = 0; i < 600; ++i) {
      sample = sample * 6364136223846793005u + 1442695040888963407u;
      const auto size = static_cast<std::uint64_t>(g.output_size());
      const auto index = i == 0    ? 0
                         : i == 1  ? size - 1
                         : i < 100 ? size - 1 - (sample >> 33) % 1000
                                   : (sample >> 16) % size;
      const auto position = static_cast<std::int64_t>(index);
      const auto ow = static_cast<int>(position % g.out_width);
      const auto oh = static_cast<int>(position / g.out_width % g.out_height);
      const auto oc = static_cast<int>(position / g.out_pixels() % g.out_channels);
      double expected = static_cast<double>(data.b[static_cast<std::size_t>(oc)]);
      double scale = std::abs(expected);
      for (int c = 0; c < g.in_channels; ++c) {
        double value = 0;
        double magnitude = 0;
        const float* filter = data.w.data() + (std::int64_t{oc} * g.in_channels + c) * g.kernel_height * g.kernel_width;
        one.out_channels = 1;
        reference_conv2d_at(one, plane.data(), filter, nullptr, 0, 0, oh, ow, value, magnitude);
        expected += value;
        scale += magnitude;
      }
      float y = 0;
      detail::copy_bytes(&y, Device::cpu(), output.as<float>() + position, Device::cuda(), sizeof(y));
      ASSERT_TRUE(std::abs(y - expected) <= error_bound(g, Precision::fp32, scale))
          << kernel.op->description() << ", " << describe(g) << ": element " << position << " is " << y << ", expected "
          << expected;
    }
  }
}

TEST_F(CudaConv2d, OutputsOver2To31Elements) {
  if (reduced()) GTEST_SKIP() << "large";
  check_large(geometry_of(square(1, 1, 8192, 8192, 33, 1)));
}

TEST_F(CudaConv2d, InputsOver2To31Elements) {
  if (reduced()) GTEST_SKIP() << "large";
  check_large(geometry_of(square(1, 33, 8192, 8192, 1, 2, 3, 1)));
}

}  // namespace
}  // namespace lamina::test::large_test
