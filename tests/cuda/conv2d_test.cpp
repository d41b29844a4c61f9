#include "lamina/cuda/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "conv_cases.h"
#include "lamina/cuda/buffer.h"
#include "lamina/cuda/device_info.h"
#include "lamina/cuda/stream.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"
#include "reference.h"

namespace lamina::test {
namespace {

using cuda::Buffer;
using cuda::Conv2dKernel;
using cuda::Conv2dOptions;

constexpr ConvAlgorithm textbook[] = {ConvAlgorithm::direct, ConvAlgorithm::direct_fixed, ConvAlgorithm::direct_padded,
                                      ConvAlgorithm::tiled, ConvAlgorithm::im2col};

/// LAMINA_TEST_REDUCED=1: a part of the cases and no large ones, for runs under compute-sanitizer.
bool reduced() {
  const char* value = std::getenv("LAMINA_TEST_REDUCED");
  return value != nullptr && *value != '\0' && *value != '0';
}

/// A float array on the device between two guard zones of NaN, itself poisoned with NaN or holding values.
class Guarded {
 public:
  explicit Guarded(std::int64_t count)
      : count_(static_cast<std::size_t>(count)), buffer_(0, (count_ + 2 * guard) * sizeof(float)) {
    poison();
  }
  explicit Guarded(const std::vector<float>& values) : Guarded(static_cast<std::int64_t>(values.size())) {
    detail::copy_bytes(data(), Device::cuda(), values.data(), Device::cpu(), values.size() * sizeof(float));
  }

  float* data() const { return buffer_.as<float>() + guard; }
  void poison() {
    cuda::fill_bytes(0, buffer_.data(), 0xff, buffer_.bytes(), nullptr);
    cuda::synchronize(0, nullptr);
  }
  std::vector<float> values() const { return read(guard, count_); }
  bool guards_intact() const {
    for (const std::size_t first : {std::size_t{0}, guard + count_}) {
      for (const float x : read(first, guard)) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &x, sizeof(bits));
        if (bits != 0xffffffffu) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t guard = 256;
  std::vector<float> read(std::size_t first, std::size_t count) const {
    std::vector<float> result(count);
    detail::copy_bytes(result.data(), Device::cpu(), buffer_.as<float>() + first, Device::cuda(),
                       count * sizeof(float));
    return result;
  }

  std::size_t count_;
  Buffer buffer_;
};

/// One convolution's data and, once asked for, its reference.
struct Problem {
  Problem(const ConvGeometry& geometry, Values values, bool with_bias)
      : g(geometry),
        x(draw(g.input_size(), values, 1)),
        w(draw(g.weight_size(), values, 2)),
        b(with_bias ? draw(g.out_channels, values, 3) : std::vector<float>{}),
        device_x(x) {}

  const float* bias() const { return b.empty() ? nullptr : b.data(); }
  const ConvReference& reference() {
    if (!reference_) reference_ = reference_conv2d(g, x.data(), w.data(), bias());
    return *reference_;
  }
  std::unique_ptr<Conv2dKernel> prepare(const Conv2dOptions& options) const {
    return cuda::prepare_conv2d(g, options, w.data(), bias());
  }

  ConvGeometry g;
  std::vector<float> x, w, b;
  Guarded device_x;

 private:
  std::optional<ConvReference> reference_;
};

/// Runs on poisoned output and workspace and checks that nothing outside them was written.
std::vector<float> run(const Conv2dKernel& kernel, const ConvGeometry& g, const float* device_x,
                       cuda::Stream stream = nullptr) {
  Guarded output(g.output_size());
  const Guarded workspace(static_cast<std::int64_t>((kernel.workspace_bytes() + 3) / 4));
  kernel.run(device_x, output.data(), workspace.data(), stream);
  cuda::synchronize(0, stream);
  EXPECT_TRUE(output.guards_intact()) << kernel.description() << " wrote outside its output: " << describe(g);
  EXPECT_TRUE(workspace.guards_intact()) << kernel.description() << " wrote outside its workspace: " << describe(g);
  return output.values();
}

/// Passes only where |y - y*| <= bound holds; NaN fails.
testing::AssertionResult within_contract(const std::vector<float>& y, Problem& problem, Precision precision,
                                         bool relu) {
  const ConvReference& reference = problem.reference();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = relu ? std::max(reference.value[i], 0.0) : reference.value[i];
    const double bound = error_bound(problem.g, precision, reference.scale[i]);
    if (std::abs(y[i] - expected) <= bound) continue;
    return testing::AssertionFailure() << describe(problem.g) << (problem.b.empty() ? "" : ", bias")
                                       << (relu ? ", relu" : "") << ": element " << i << " is " << y[i] << ", expected "
                                       << expected << " within " << bound;
  }
  return testing::AssertionSuccess();
}

class CudaConv2d : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

void check_all(const ConvGeometry& g, Values values, bool bias, bool relu) {
  Problem problem(g, values, bias);
  for (const ConvAlgorithm algorithm : textbook) {
    const auto kernel = problem.prepare({.algorithm = algorithm, .relu = relu});
    EXPECT_TRUE(within_contract(run(*kernel, g, problem.device_x.data()), problem, Precision::fp32, relu))
        << "asked for " << name(algorithm) << ", got " << kernel->description();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(CudaConv2d, MeetsTheContractOnAwkwardGeometries) {
  const auto geometries = awkward_geometries();
  for (std::size_t i = 0; i < geometries.size(); i += reduced() ? 3 : 1) {
    check_all(geometries[i], Values::mixed, i % 2 == 0, i % 4 < 2);
    if (reduced()) continue;
    check_all(geometries[i], Values::mixed, i % 2 != 0, i % 4 >= 2);
    check_all(geometries[i], Values::positive, true, false);
    check_all(geometries[i], Values::equal, false, true);
  }
}

TEST_F(CudaConv2d, MeetsTheContractOnAlexNetConv1) {
  if (reduced()) return check_all(alexnet_conv1(1, 64), Values::mixed, true, true);
  check_all(alexnet_conv1(2, 96), Values::mixed, true, true);
  check_all(alexnet_conv1(1, 96), Values::mixed, false, false);
  check_all(alexnet_conv1(1, 96), Values::positive, true, false);
  check_all(alexnet_conv1(1, 96), Values::equal, true, false);
  check_all(alexnet_conv1(3, 64), Values::mixed, true, false);
  check_all(alexnet_conv1(1, 64), Values::equal, false, true);
  // One number away from the compiled geometry must not go through its kernel.
  check_all(geometry_of(square(1, 3, 224, 224, 96, 11, 4, 1)), Values::mixed, true, false);
  check_all(geometry_of(square(1, 3, 223, 224, 64, 11, 4, 2)), Values::mixed, true, false);
}

TEST_F(CudaConv2d, DirectFixedSaysWhetherItApplies) {
  const Problem fixed(alexnet_conv1(1), Values::mixed, false);
  EXPECT_EQ(fixed.prepare({.algorithm = ConvAlgorithm::direct_fixed})->algorithm(), ConvAlgorithm::direct_fixed);
  const Problem other(geometry_of(square(1, 3, 9, 9, 96, 3)), Values::mixed, false);
  const auto kernel = other.prepare({.algorithm = ConvAlgorithm::direct_fixed});
  EXPECT_EQ(kernel->algorithm(), ConvAlgorithm::direct);
  EXPECT_NE(kernel->description().find("direct_fixed"), std::string::npos) << kernel->description();
}

TEST_F(CudaConv2d, TiledFallsBackWhereNothingFits) {
  // One kernel row of one output spans 80,000 columns, 320 KB.
  Problem problem(geometry_of({1, 1, 2, 80'003, 2, 2, 2, 1, 1, 0, 0, 1, 80'000, 1}), Values::mixed, true);
  const auto kernel = problem.prepare({.algorithm = ConvAlgorithm::tiled});
  EXPECT_EQ(kernel->algorithm(), ConvAlgorithm::direct);
  EXPECT_TRUE(within_contract(run(*kernel, problem.g, problem.device_x.data()), problem, Precision::fp32, false));
}

TEST_F(CudaConv2d, Tf32MeetsItsContract) {
  const auto geometries = awkward_geometries();
  for (std::size_t i = 0; i < geometries.size(); i += reduced() ? 7 : 1) {
    for (const Values values : {Values::mixed, Values::equal}) {
      Problem problem(geometries[i], values, i % 2 == 0);
      const auto kernel = problem.prepare({.precision = Precision::tf32, .algorithm = ConvAlgorithm::im2col});
      EXPECT_TRUE(within_contract(run(*kernel, problem.g, problem.device_x.data()), problem, Precision::tf32, false));
    }
  }
}

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

/// Whether the window of output (oh, ow) holds input pixel (ih, iw).
bool window_holds(const ConvGeometry& g, int oh, int ow, int ih, int iw) {
  const int h = ih - (oh * g.stride_height - g.padding_height);
  const int w = iw - (ow * g.stride_width - g.padding_width);
  return h >= 0 && w >= 0 && h % g.dilation_height == 0 && w % g.dilation_width == 0 &&
         h / g.dilation_height < g.kernel_height && w / g.dilation_width < g.kernel_width;
}

TEST_F(CudaConv2d, NonFiniteInputReachesExactlyItsWindows) {
  struct Poison {
    ConvGeometry g;
    int channel, row, column;
  };
  std::vector<Poison> poisons = {{geometry_of(square(2, 4, 17, 19, 10, 3, 2, 2, 2, 2)), 1, 0, 0},
                                 {geometry_of(square(2, 4, 17, 19, 10, 3, 1, 1)), 3, 16, 18},
                                 {geometry_of(square(2, 4, 33, 40, 10, 5, 7, 1)), 2, 20, 9},
                                 {alexnet_conv1(2), 1, 100, 111}};
  if (reduced()) poisons.pop_back();
  for (const Poison& poison : poisons) {
    const ConvGeometry& g = poison.g;
    const std::int64_t image = g.batch - 1;
    Problem problem(g, Values::mixed, true);
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = problem.x;
      x[static_cast<std::size_t>(((image * g.in_channels + poison.channel) * g.in_height + poison.row) * g.in_width +
                                 poison.column)] = value;
      const Guarded device_x(x);
      for (const ConvAlgorithm algorithm : textbook) {
        for (const bool relu : {false, true}) {
          const auto kernel = problem.prepare({.algorithm = algorithm, .relu = relu});
          const auto clean = run(*kernel, g, problem.device_x.data());
          const auto y = run(*kernel, g, device_x.data());
          std::size_t i = 0;
          for (std::int64_t n = 0; n < g.batch; ++n) {
            for (int oc = 0; oc < g.out_channels; ++oc) {
              for (int oh = 0; oh < g.out_height; ++oh) {
                for (int ow = 0; ow < g.out_width; ++ow, ++i) {
                  const bool reached = n == image &&
                                       oc / g.group_out_channels() == poison.channel / g.group_in_channels() &&
                                       window_holds(g, oh, ow, poison.row, poison.column);
                  const bool as_expected = !reached            ? y[i] == clean[i]
                                           : std::isnan(value) ? std::isnan(y[i])
                                                               : std::isinf(y[i]) || (relu && y[i] == 0.0f);
                  ASSERT_TRUE(as_expected)
                      << kernel->description() << ", " << describe(g) << ": element " << i << " is " << y[i] << " with "
                      << value << " in the input, " << clean[i] << " without";
                }
              }
            }
          }
        }
      }
    }
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

TEST_F(CudaConv2d, AutomaticMeetsTheContract) {
  for (const ConvGeometry& g : {alexnet_conv1(1), geometry_of(square(2, 17, 14, 15, 33, 3, 1, 1))}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      Problem problem(g, Values::mixed, true);
      const auto kernel = problem.prepare({.precision = precision, .relu = true});
      EXPECT_TRUE(within_contract(run(*kernel, g, problem.device_x.data()), problem, precision, true))
          << kernel->description();
    }
  }
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
  const auto w = draw(g.weight_size(), Values::mixed, 2);
  const auto b = draw(g.out_channels, Values::mixed, 3);
  const Buffer input(0, static_cast<std::size_t>(g.input_size()) * sizeof(float));
  for (std::int64_t c = 0; c < g.batch * g.in_channels; ++c) {
    cuda::upload(0, input.as<float>() + c * g.in_pixels(), plane.data(), plane_bytes, nullptr);
  }
  const Buffer output(0, static_cast<std::size_t>(g.output_size()) * sizeof(float));
  // The reference for one channel of a window: all channels hold the same plane.
  ConvGeometry one = g;
  one.in_channels = 1;
  for (const ConvAlgorithm algorithm : textbook) {
    const auto kernel = cuda::prepare_conv2d(g, {.algorithm = algorithm}, w.data(), b.data());
    const Buffer workspace(0, kernel->workspace_bytes());
    cuda::fill_bytes(0, output.data(), 0xff, output.bytes(), nullptr);
    kernel->run(input.data(), output.data(), workspace.data(), nullptr);
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
      double expected = static_cast<double>(b[static_cast<std::size_t>(oc)]);
      double scale = std::abs(expected);
      for (int c = 0; c < g.in_channels; ++c) {
        double value = 0;
        double magnitude = 0;
        const float* filter = w.data() + (std::int64_t{oc} * g.in_channels + c) * g.kernel_height * g.kernel_width;
        one.out_channels = 1;
        reference_conv2d_at(one, plane.data(), filter, nullptr, 0, 0, oh, ow, value, magnitude);
        expected += value;
        scale += magnitude;
      }
      float y = 0;
      detail::copy_bytes(&y, Device::cpu(), output.as<float>() + position, Device::cuda(), sizeof(y));
      ASSERT_TRUE(std::abs(y - expected) <= error_bound(g, Precision::fp32, scale))
          << kernel->description() << ", " << describe(g) << ": element " << position << " is " << y << ", expected "
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
}  // namespace lamina::test
