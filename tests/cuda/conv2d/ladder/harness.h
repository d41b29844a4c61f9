#pragma once

#include "lamina/cuda/conv2d/conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/buffer.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/device_memory.h"
#include "support/conv_cases.h"
#include "support/reference.h"

/// What the tests of the textbook kernels share: data between guards, and runs against the double reference.
namespace lamina::test {

using cuda::Buffer;
using cuda::Conv2dKernel;
using cuda::Conv2dOptions;

inline constexpr ConvAlgorithm textbook[] = {ConvAlgorithm::direct, ConvAlgorithm::direct_fixed,
                                             ConvAlgorithm::direct_padded, ConvAlgorithm::tiled, ConvAlgorithm::im2col};

/// LAMINA_TEST_REDUCED=1: a part of the cases and no large ones, for runs under compute-sanitizer.
inline bool reduced() {
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
inline std::vector<float> run(const Conv2dKernel& kernel, const ConvGeometry& g, const float* device_x,
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
inline testing::AssertionResult within_contract(const std::vector<float>& y, Problem& problem, Precision precision,
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

inline void check_all(const ConvGeometry& g, Values values, bool bias, bool relu) {
  Problem problem(g, values, bias);
  for (const ConvAlgorithm algorithm : textbook) {
    const auto kernel = problem.prepare({.algorithm = algorithm, .relu = relu});
    EXPECT_TRUE(within_contract(run(*kernel, g, problem.device_x.data()), problem, Precision::fp32, relu))
        << "asked for " << name(algorithm) << ", got " << kernel->description();
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace lamina::test
