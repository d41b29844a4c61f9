#pragma once

#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/implicit_gemm/choice.h"
#include "lamina/cuda/conv2d/implicit_gemm/layout.h"
#include "lamina/cuda/runtime/buffer.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/tensor/device_memory.h"
#include "support/reference.h"

/// What the tests of the implicit GEMM share: cases, data, and one run against the double reference under the contract.
namespace lamina::cuda {

using test::ConvReference;
using test::error_bound;
using test::reference_conv2d;

inline constexpr std::size_t guard_bytes = 4096;
inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// One convolution: `kernel`, `stride`, `padding` and `dilation` as {height, width}.
struct Case {
  std::int64_t batch = 1;
  int in = 1, height = 1, width = 1, out = 1;
  int kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  int groups = 1;
};

inline ConvGeometry geometry_of(const Case& c) {
  ConvGeometry g;
  g.batch = c.batch;
  g.in_channels = c.in, g.in_height = c.height, g.in_width = c.width, g.out_channels = c.out;
  g.kernel_height = c.kernel[0], g.kernel_width = c.kernel[1];
  g.stride_height = c.stride[0], g.stride_width = c.stride[1];
  g.padding_height = c.padding[0], g.padding_width = c.padding[1];
  g.dilation_height = c.dilation[0], g.dilation_width = c.dilation[1];
  g.groups = c.groups;
  g.out_height = (c.height + 2 * c.padding[0] - c.dilation[0] * (c.kernel[0] - 1) - 1) / c.stride[0] + 1;
  g.out_width = (c.width + 2 * c.padding[1] - c.dilation[1] * (c.kernel[1] - 1) - 1) / c.stride[1] + 1;
  return g;
}

inline std::string describe(const ConvGeometry& g, const Conv2dOptions& options, const ImplicitGemmChoice& choice) {
  return detail::concat(name(options.precision), " ", options.input, " -> ", options.output, ", [", g.batch, ", ",
                        g.in_channels, ", ", g.in_height, ", ", g.in_width, "] * [", g.out_channels, ", ",
                        g.group_in_channels(), ", ", g.kernel_height, ", ", g.kernel_width, "] stride ",
                        g.stride_height, "x", g.stride_width, " padding ", g.padding_height, "x", g.padding_width,
                        " dilation ", g.dilation_height, "x", g.dilation_width, " groups ", g.groups,
                        options.relu ? " relu" : "", ", tile ", choice.tile, ", splits ", choice.splits);
}

struct Data {
  std::vector<float> x, w, b;
};

using Draw = std::function<float(std::mt19937&)>;

inline Data draw(const ConvGeometry& g, const Draw& x, const Draw& w, unsigned seed) {
  std::mt19937 random(seed);
  Data data;
  data.x.resize(static_cast<std::size_t>(g.input_size()));
  data.w.resize(static_cast<std::size_t>(g.weight_size()));
  data.b.resize(static_cast<std::size_t>(g.out_channels));
  for (float& v : data.x) v = x(random);
  for (float& v : data.w) v = w(random);
  for (float& v : data.b) v = w(random);
  return data;
}

inline float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
inline float positive(std::mt19937& random) { return std::uniform_real_distribution<float>(0.5f, 1.0f)(random); }
inline float mixed(std::mt19937& random) {
  return normal(random) * std::pow(10.0f, std::uniform_real_distribution<float>(-18, 18)(random));
}

inline float round_to(float value, Precision precision) {
  if (precision == Precision::fp16) return to_float(to_half(value));
  if (precision == Precision::bf16) return to_float(to_bfloat16(value));
  return value;
}

inline std::vector<std::uint16_t> to_bits(const std::vector<float>& values, DType type) {
  std::vector<std::uint16_t> bits;
  for (const float v : values) bits.push_back(type == DType::f16 ? to_half(v).bits : to_bfloat16(v).bits);
  return bits;
}

/// Device memory whose every byte is 0xff (NaN in every type), with guard zones around it that must stay so.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), poison_(bytes + 2 * guard_bytes, 0xff) {
    buffer_ = Buffer(0, poison_.data(), poison_.size());
  }
  unsigned char* data() const { return buffer_.as<unsigned char>() + guard_bytes; }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> all(poison_.size());
    detail::copy_bytes(all.data(), Device::cpu(), buffer_.data(), Device::cuda(0), all.size());
    const auto untouched = [](auto first, auto last) {
      return std::all_of(first, last, [](int b) { return b == 0xff; });
    };
    EXPECT_TRUE(untouched(all.begin(), all.begin() + guard_bytes)) << "written before the buffer";
    EXPECT_TRUE(untouched(all.end() - guard_bytes, all.end())) << "written past the buffer";
    return {all.begin() + guard_bytes, all.end() - guard_bytes};
  }

 private:
  std::size_t bytes_;
  std::vector<unsigned char> poison_;
  Buffer buffer_;
};

/// The output's bytes.
inline std::vector<unsigned char> run_bytes(const ConvGeometry& g, const Conv2dOptions& options, const Data& data,
                                            bool biased, const ImplicitGemmChoice& choice) {
  const auto kernel = make_implicit_gemm(g, options, data.w.data(), biased ? data.b.data() : nullptr, choice);
  Buffer input;
  if (options.input == DType::f32) {
    input = Buffer(0, data.x.data(), data.x.size() * sizeof(float));
  } else {
    const auto bits = to_bits(data.x, options.input);
    input = Buffer(0, bits.data(), bits.size() * 2);
  }
  const Guarded output(static_cast<std::size_t>(g.output_size()) * size_of(options.output));
  const Guarded workspace(kernel->workspace_bytes());
  kernel->run(input.data(), output.data(), workspace.data(), nullptr);
  check(cudaDeviceSynchronize());
  workspace.read();
  return output.read();
}

inline std::vector<float> run(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                              const ImplicitGemmChoice& choice) {
  const auto bytes = run_bytes(g, options, data, biased, choice);
  std::vector<float> values(static_cast<std::size_t>(g.output_size()));
  if (options.output == DType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = options.output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
  }
  return values;
}

/// Compares every output with the reference; the worst error as a share of the bound. Where the reference is not finite
/// the output must be the same NaN or Inf. `what` is for messages.
inline double expect_outputs(const ConvGeometry& g, const Conv2dOptions& options, const ConvReference& reference,
                             const std::vector<float>& actual, const std::string& what) {
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double expected = reference.value[i];
    if (options.relu && expected < 0) expected = 0;
    bool good;
    double share = 0;
    if (std::isfinite(expected)) {
      share = std::abs(actual[i] - expected) / error_bound(g, options.precision, reference.scale[i]);
      good = share <= 1;
    } else {
      good = std::isnan(expected) ? std::isnan(actual[i]) : actual[i] == static_cast<float>(expected);
    }
    if (!good) {
      ADD_FAILURE() << what << ": output " << i << " is " << actual[i] << ", expected " << expected << " (" << share
                    << " of the bound; scale " << reference.scale[i] << ")";
      return share;
    }
    worst = std::max(worst, share);
  }
  return worst;
}

/// Runs and compares every output with the reference; the worst error as a share of the bound.
inline double expect_contract(const ConvGeometry& g, Conv2dOptions options, Data data, bool biased,
                              const ImplicitGemmChoice& choice = {}) {
  for (float& v : data.x) v = round_to(v, options.precision);
  for (float& v : data.w) v = round_to(v, options.precision);
  const ConvReference reference = reference_conv2d(g, data.x.data(), data.w.data(), biased ? data.b.data() : nullptr);
  return expect_outputs(g, options, reference, run(g, options, data, biased, choice), describe(g, options, choice));
}

class OnTensorCores : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 8) GTEST_SKIP() << "needs compute capability 8.0";
  }
};

/// The tiles on offer here for one convolution, as ImplicitGemmChoice counts them.
inline std::vector<int> tiles_for(const ConvGeometry& g, Precision precision) {
  const implicit_gemm::KernelSet set = implicit_gemm::kernels_on(0, precision);
  const int unit_bytes = implicit_gemm::make_layout(g, precision).unit_bytes;
  std::vector<int> result;
  for (std::size_t i = 0; i < set.tiles.size(); ++i) {
    if (set.tiles[i].unit_bytes == unit_bytes) result.push_back(static_cast<int>(i));
  }
  return result;
}

inline constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16};

// Around tiles of 64, 96 and 128 filters, 64 and 128 pixels, and steps of 32 and 64 terms.
inline const std::vector<Case> cases = {
    {},
    {.in = 3, .height = 5, .width = 7, .out = 2, .kernel = {3, 3}},
    {.batch = 2, .in = 1, .height = 28, .width = 28, .out = 6, .kernel = {5, 5}, .padding = {2, 2}},
    {.in = 1, .height = 17, .width = 13, .out = 1, .kernel = {3, 5}, .stride = {2, 3}, .padding = {1, 2}},
    {.in = 2, .height = 9, .width = 9, .out = 5, .kernel = {2, 2}},
    {.in = 3, .height = 63, .width = 63, .out = 96, .kernel = {11, 11}, .stride = {4, 4}, .padding = {2, 2}},
    {.batch = 3,
     .in = 3,
     .height = 35,
     .width = 35,
     .out = 95,
     .kernel = {11, 11},
     .stride = {4, 4},
     .padding = {2, 2}},
    {.in = 3, .height = 39, .width = 31, .out = 97, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
    {.in = 4, .height = 23, .width = 23, .out = 64, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
    {.batch = 2, .in = 64, .height = 9, .width = 11, .out = 192, .kernel = {5, 5}, .padding = {2, 2}},
    {.in = 192, .height = 9, .width = 8, .out = 384, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 384, .height = 4, .width = 5, .out = 256, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 16, .height = 8, .width = 8, .out = 63},
    {.in = 16, .height = 8, .width = 8, .out = 64},
    {.in = 16, .height = 8, .width = 8, .out = 65},
    {.in = 32, .height = 7, .width = 9, .out = 127},
    {.in = 32, .height = 16, .width = 8, .out = 128},
    {.in = 32, .height = 3, .width = 43, .out = 129},
    {.in = 31, .height = 11, .width = 11, .out = 33},
    {.in = 33, .height = 1, .width = 127, .out = 17},
    {.in = 63, .height = 1, .width = 128, .out = 96},
    {.in = 64, .height = 1, .width = 129, .out = 95},
    {.in = 65, .height = 65, .width = 1, .out = 97},
    {.in = 5, .height = 12, .width = 12, .out = 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 6, .height = 12, .width = 10, .out = 8, .kernel = {3, 2}, .padding = {1, 0}},
    {.in = 7, .height = 10, .width = 12, .out = 9, .kernel = {1, 3}, .padding = {0, 1}},
    {.in = 9, .height = 12, .width = 12, .out = 10, .kernel = {3, 3}, .stride = {2, 1}},
    {.in = 17, .height = 19, .width = 19, .out = 23, .kernel = {3, 3}, .stride = {5, 7}},
    {.in = 8, .height = 20, .width = 20, .out = 16, .kernel = {2, 2}, .stride = {6, 6}},
    {.in = 8, .height = 20, .width = 22, .out = 16, .kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}},
    {.in = 8, .height = 25, .width = 19, .out = 12, .kernel = {3, 5}, .padding = {4, 1}, .dilation = {4, 3}},
    {.in = 4,
     .height = 9,
     .width = 9,
     .out = 4,
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {7, 7},
     .dilation = {3, 3}},
    {.in = 3, .height = 2, .width = 2, .out = 3, .kernel = {5, 5}, .padding = {4, 4}},
    {.in = 2, .height = 1, .width = 1, .out = 130, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 32, .height = 14, .width = 14, .out = 32, .kernel = {3, 3}, .padding = {1, 1}, .groups = 32},
    {.batch = 2, .in = 12, .height = 9, .width = 9, .out = 24, .kernel = {3, 3}, .padding = {1, 1}, .groups = 12},
    {.in = 12, .height = 11, .width = 9, .out = 8, .kernel = {3, 3}, .padding = {1, 1}, .groups = 4},
    {.in = 96, .height = 9, .width = 9, .out = 256, .kernel = {5, 5}, .padding = {2, 2}, .groups = 2},
    {.batch = 2, .in = 40, .height = 8, .width = 8, .out = 130, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2},
    {.in = 1, .height = 1, .width = 300, .out = 3, .kernel = {1, 127}},
    {.in = 2, .height = 200, .width = 3, .out = 3, .kernel = {127, 2}, .stride = {3, 1}, .padding = {60, 0}},
    {.in = 1, .height = 1, .width = 40000, .out = 4, .kernel = {1, 16}, .stride = {1, 4}, .padding = {0, 5}},
    {.batch = 37, .in = 8, .height = 1, .width = 1, .out = 11},
    {.batch = 131, .in = 3, .height = 3, .width = 3, .out = 7, .kernel = {3, 3}},
    {.batch = 5, .in = 24, .height = 5, .width = 5, .out = 40, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 64, .in = 20, .height = 2, .width = 1, .out = 21, .kernel = {2, 1}},
    {.in = 1024, .height = 2, .width = 3, .out = 70},
    {.in = 512, .height = 4, .width = 4, .out = 31, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 257, .height = 5, .width = 5, .out = 67, .kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}},
    {.in = 3, .height = 32, .width = 32, .out = 64, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 48, .height = 10, .width = 10, .out = 96, .kernel = {1, 1}, .stride = {3, 3}},
    {.in = 100, .height = 12, .width = 11, .out = 104, .kernel = {3, 3}, .padding = {1, 1}},
};

}  // namespace lamina::cuda
