// The mma.sync implicit GEMM against the double reference, under the precision contract.

#include "lamina/cuda/implicit_gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "lamina/cuda/buffer.h"
#include "lamina/cuda/check.h"
#include "lamina/cuda/implicit_gemm_layout.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"
#include "reference.h"

namespace lamina::cuda {
namespace {

using test::ConvReference;
using test::error_bound;
using test::reference_conv2d;

constexpr std::size_t guard_bytes = 4096;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// One convolution: `kernel`, `stride`, `padding` and `dilation` as {height, width}.
struct Case {
  std::int64_t batch = 1;
  int in = 1, height = 1, width = 1, out = 1;
  int kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  int groups = 1;
};

ConvGeometry geometry_of(const Case& c) {
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

std::string describe(const ConvGeometry& g, const Conv2dOptions& options, const ImplicitGemmChoice& choice) {
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

Data draw(const ConvGeometry& g, const Draw& x, const Draw& w, unsigned seed) {
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

float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
float positive(std::mt19937& random) { return std::uniform_real_distribution<float>(0.5f, 1.0f)(random); }
float mixed(std::mt19937& random) {
  return normal(random) * std::pow(10.0f, std::uniform_real_distribution<float>(-18, 18)(random));
}

float round_to(float value, Precision precision) {
  if (precision == Precision::fp16) return to_float(to_half(value));
  if (precision == Precision::bf16) return to_float(to_bfloat16(value));
  return value;
}

std::vector<std::uint16_t> to_bits(const std::vector<float>& values, DType type) {
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
std::vector<unsigned char> run_bytes(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                                     const ImplicitGemmChoice& choice) {
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

std::vector<float> run(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
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

/// Runs and compares every output with the reference; the worst error as a share of the bound. Where the reference is
/// not finite the output must be the same NaN or Inf.
double expect_contract(const ConvGeometry& g, Conv2dOptions options, Data data, bool biased,
                       const ImplicitGemmChoice& choice = {}) {
  for (float& v : data.x) v = round_to(v, options.precision);
  for (float& v : data.w) v = round_to(v, options.precision);
  const ConvReference reference = reference_conv2d(g, data.x.data(), data.w.data(), biased ? data.b.data() : nullptr);
  const std::vector<float> actual = run(g, options, data, biased, choice);
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
      ADD_FAILURE() << describe(g, options, choice) << ": output " << i << " is " << actual[i] << ", expected "
                    << expected << " (" << share << " of the bound; scale " << reference.scale[i] << ")";
      return share;
    }
    worst = std::max(worst, share);
  }
  return worst;
}

class ImplicitGemm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 8) GTEST_SKIP() << "needs compute capability 8.0";
  }
};

/// The tiles on offer here for one convolution, as ImplicitGemmChoice counts them.
std::vector<int> tiles_for(const ConvGeometry& g, Precision precision) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  const implicit_gemm::KernelSet set = precision == Precision::fp32   ? implicit_gemm::kernels_fp32(major, minor)
                                       : precision == Precision::tf32 ? implicit_gemm::kernels_tf32(major, minor)
                                       : precision == Precision::fp16 ? implicit_gemm::kernels_fp16(major, minor)
                                                                      : implicit_gemm::kernels_bf16(major, minor);
  const int unit_bytes = implicit_gemm::make_layout(g, precision).unit_bytes;
  std::vector<int> result;
  for (std::size_t i = 0; i < set.tiles.size(); ++i) {
    if (set.tiles[i].unit_bytes == unit_bytes) result.push_back(static_cast<int>(i));
  }
  return result;
}

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16};

// Around tiles of 64, 96 and 128 filters, 64 and 128 pixels, and steps of 32 and 64 terms.
const std::vector<Case> cases = {
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

TEST_F(ImplicitGemm, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    double worst = 0;
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      // Bias and ReLU take turns, so that over the cases all four combinations occur.
      const Conv2dOptions options{.precision = precision, .relu = (seed & 1) != 0};
      ASSERT_TRUE(implicit_gemm_supports(g, options));
      worst = std::max(worst, expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(ImplicitGemm, EveryTileAndSplit) {
  unsigned seed = 1000;
  for (const Precision precision : precisions) {
    for (const std::size_t i : {3u, 6u, 17u, 29u, 38u, 44u, 47u, 51u}) {
      const ConvGeometry g = geometry_of(cases[i]);
      for (const int tile : tiles_for(g, precision)) {
        for (const int splits : {1, 2, 5}) {
          const Conv2dOptions options{.precision = precision, .relu = (++seed & 1) != 0};
          expect_contract(g, options, draw(g, normal, normal, seed), (seed & 2) != 0, {.tile = tile, .splits = splits});
        }
      }
    }
  }
}

TEST_F(ImplicitGemm, StoresAndLoads16Bits) {
  for (const auto& [precision, type] :
       {std::pair{Precision::fp16, DType::f16}, std::pair{Precision::bf16, DType::bf16}}) {
    for (const std::size_t i : {2u, 5u, 9u, 25u, 34u, 43u}) {
      const ConvGeometry g = geometry_of(cases[i]);
      const Data data = draw(g, normal, normal, 7);
      expect_contract(g, {.precision = precision, .input = type, .output = type, .relu = true}, data, true);
      expect_contract(g, {.precision = precision, .input = type}, data, false);
      expect_contract(g, {.precision = precision, .output = type}, data, true, {.splits = 3});
    }
  }
}

const std::size_t contract_cases[] = {6, 9, 10, 11, 29, 34, 47, 48};

TEST_F(ImplicitGemm, OneSidedData) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(cases[i]);
      expect_contract(g, {.precision = precision}, draw(g, positive, positive, 11), true);
      // All products alike: every addition rounds the same way.
      expect_contract(g, {.precision = precision},
                      draw(
                          g, [](auto&) { return 0.1f; }, [](auto&) { return 0.3f; }, 0),
                      false);
      // The largest error of the split: what is left over is largest and has all bits set.
      for (const std::uint32_t bits : {0x3f800fffu, 0x3f801fffu}) {
        const float worst = std::bit_cast<float>(bits);
        expect_contract(g, {.precision = precision},
                        draw(
                            g, [=](auto&) { return worst; }, [=](auto&) { return worst; }, 0),
                        false);
      }
    }
  }
}

TEST_F(ImplicitGemm, CancellingData) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(cases[i]);
      Data data = draw(g, positive, positive, 13);
      for (std::size_t k = 1; k < data.w.size(); k += 2) data.w[k] = -data.w[k - 1];
      expect_contract(g, {.precision = precision}, data, true);
    }
  }
}

TEST_F(ImplicitGemm, MixedMagnitudes) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    for (const std::size_t i : contract_cases) {
      const ConvGeometry g = geometry_of(cases[i]);
      expect_contract(g, {.precision = precision}, draw(g, mixed, mixed, 17), true);
      expect_contract(g, {.precision = precision}, draw(g, mixed, normal, 18), false);
      expect_contract(g, {.precision = precision}, draw(g, normal, mixed, 19), false);
    }
  }
}

TEST_F(ImplicitGemm, Fp32AtTheEndsOfTheRange) {
  const auto scaled = [](float factor) { return [factor](std::mt19937& random) { return normal(random) * factor; }; };
  const ConvGeometry g = geometry_of(cases[44]);
  for (const int splits : {1, 3}) {
    const ImplicitGemmChoice choice{.splits = splits};
    const auto expect = [&](const Draw& x, const Draw& w) {
      expect_contract(g, {.precision = Precision::fp32}, draw(g, x, w, 23), false, choice);
    };
    expect(scaled(1e-40f), scaled(1e20f));  // subnormal input
    expect(scaled(1e-36f), scaled(1e20f));  // its low word would be subnormal
    expect(scaled(1e20f), scaled(1e-40f));  // weights that decayed
    expect(scaled(1e20f), scaled(1e-36f));
    expect(scaled(1e30f), scaled(1e5f));
    expect(scaled(1e-5f), scaled(1e37f));
    // Weights that span more than the split can hold.
    expect(normal, [](std::mt19937& random) {
      return normal(random) * std::pow(10.0f, std::uniform_real_distribution<float>(-40, 30)(random));
    });
    const float largest = std::numeric_limits<float>::max();
    expect([=](auto&) { return largest; }, [](std::mt19937& random) { return normal(random) * 1e-4f; });
    expect([](std::mt19937& random) { return normal(random) * 1e-4f; }, [=](auto&) { return largest; });
  }
}

TEST_F(ImplicitGemm, Tf32KeepsFiniteValuesFinite) {
  const ConvGeometry g = geometry_of(cases[44]);
  const float largest = std::numeric_limits<float>::max();
  const auto small = [](std::mt19937& random) { return normal(random) * 1e-4f; };
  expect_contract(g, {.precision = Precision::tf32},
                  draw(
                      g, [=](auto&) { return largest; }, small, 29),
                  false);
  expect_contract(g, {.precision = Precision::tf32},
                  draw(
                      g, small, [=](auto&) { return largest; }, 30),
                  false);
}

TEST_F(ImplicitGemm, NonFiniteInputsReachExactlyTheirOutputs) {
  const float nans[] = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7fffffffu),
                        std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffc00000u)};
  // Among the weights are zeros and values without a low word, whose product with an Inf must stay right.
  const auto weights = [](std::mt19937& random) {
    const float choices[] = {0.0f, 0.5f, -2.0f, normal(random), normal(random)};
    return choices[random() % 5];
  };
  for (const Precision precision : precisions) {
    for (const std::size_t i : {2u, 6u, 9u, 23u, 29u, 34u, 36u, 38u, 43u}) {
      for (const int splits : {0, 3}) {
        const ConvGeometry g = geometry_of(cases[i]);
        Data data = draw(g, normal, weights, 31);
        std::mt19937 random(static_cast<unsigned>(i));
        for (int n = 0; n < 4; ++n) {
          data.x[random() % data.x.size()] = nans[n];
          data.x[random() % data.x.size()] = n % 2 == 0 ? infinity : -infinity;
        }
        expect_contract(g, {.precision = precision, .relu = splits != 0}, data, true, {.splits = splits});
      }
    }
  }
}

TEST_F(ImplicitGemm, OverflowBecomesInfinity) {
  const ConvGeometry g = geometry_of(cases[44]);
  Data data = draw(g, positive, positive, 37);
  for (float& v : data.x) v = 1e30f;
  for (float& v : data.w) v = 1e30f;
  for (const Precision precision : precisions) {
    for (const float y : run(g, {.precision = precision}, data, false, {})) ASSERT_EQ(y, infinity);
  }
  data = draw(g, positive, positive, 38);
  for (float& v : data.x) v *= 30000;
  for (const float y : run(g, {.precision = Precision::fp16, .output = DType::f16}, data, false, {}))
    ASSERT_EQ(y, infinity);
}

TEST_F(ImplicitGemm, SlicesOfTheBatchFitTheWorkspaceLimit) {
  for (const Precision precision : precisions) {
    const ConvGeometry g = geometry_of(cases[44]);
    const std::size_t image = 25 * 24 * (precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2);
    const Conv2dOptions options{.precision = precision, .workspace_limit = 2 * image + image / 2};
    const Data data = draw(g, normal, normal, 41);
    EXPECT_LE(make_implicit_gemm(g, options, data.w.data(), nullptr)->workspace_bytes(), 2 * image + 256);
    expect_contract(g, options, data, true);
    EXPECT_FALSE(implicit_gemm_supports(g, {.precision = precision, .workspace_limit = image - 1}));
  }
}

TEST_F(ImplicitGemm, SameBitsEveryRun) {
  for (const Precision precision : precisions) {
    for (const std::size_t i : {6u, 9u, 10u}) {
      const ConvGeometry g = geometry_of(cases[i]);
      const Data data = draw(g, normal, normal, 43);
      for (const int splits : {1, 4}) {
        const auto first = run_bytes(g, {.precision = precision}, data, true, {.splits = splits});
        for (int repeat = 0; repeat < 3; ++repeat) {
          ASSERT_EQ(first, run_bytes(g, {.precision = precision}, data, true, {.splits = splits}));
        }
      }
    }
  }
}

TEST_F(ImplicitGemm, RefusesWhatItCannotDo) {
  const ConvGeometry g = geometry_of({.in = 1, .height = 1, .width = 300, .out = 3, .kernel = {1, 128}});
  EXPECT_FALSE(implicit_gemm_supports(g, {}));
  const ConvGeometry small = geometry_of(cases[1]);
  EXPECT_TRUE(implicit_gemm_supports(small, {}));
  EXPECT_FALSE(implicit_gemm_supports(small, {.precision = Precision::fp32, .input = DType::f16}));
  EXPECT_FALSE(implicit_gemm_supports(small, {.precision = Precision::fp16, .output = DType::bf16}));
}

}  // namespace
}  // namespace lamina::cuda
