// The Hopper convolution against the double reference: every precision, at the edges of its tiles and rings, and with
// the inputs for which its contract is hardest to keep.

#include "lamina/cuda/implicit_gemm_sm90.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lamina/cuda/buffer.h"
#include "reference.h"

namespace lamina::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

ConvGeometry geometry(int batch, int height, int width, int filters, int kernel = 11, int stride = 4, int padding = 2,
                      int channels = 3) {
  ConvGeometry g;
  g.batch = batch;
  g.in_channels = channels, g.in_height = height, g.in_width = width;
  g.out_channels = filters;
  g.kernel_height = g.kernel_width = kernel;
  g.stride_height = g.stride_width = stride;
  g.padding_height = g.padding_width = padding;
  g.out_height = (height + 2 * padding - kernel) / stride + 1;
  g.out_width = (width + 2 * padding - kernel) / stride + 1;
  return g;
}

std::string describe(const ConvGeometry& g) {
  return std::to_string(g.batch) + "x" + std::to_string(g.in_channels) + "x" + std::to_string(g.in_height) + "x" +
         std::to_string(g.in_width) + " to " + std::to_string(g.out_channels) + ", " + std::to_string(g.kernel_height) +
         "x" + std::to_string(g.kernel_width) + "/" + std::to_string(g.stride_height) + " padding " +
         std::to_string(g.padding_height);
}

/// Input, weights and bias of one case.
struct Data {
  std::vector<float> x, w, b;
};

Data random_data(const ConvGeometry& g, unsigned seed, const std::function<float(std::mt19937&)>& pixel,
                 const std::function<float(std::mt19937&)>& weight) {
  std::mt19937 random(seed);
  Data d;
  d.x.resize(static_cast<std::size_t>(g.input_size()));
  d.w.resize(static_cast<std::size_t>(g.weight_size()));
  d.b.resize(static_cast<std::size_t>(g.out_channels));
  for (float& v : d.x) v = pixel(random);
  for (float& v : d.w) v = weight(random);
  for (float& v : d.b) v = weight(random);
  return d;
}

float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
float positive(std::mt19937& random) { return std::uniform_real_distribution<float>(0.5f, 1.0f)(random); }
/// Any sign, any magnitude from 1e-18 to 1e18.
float wild(std::mt19937& random) {
  const float magnitude = std::pow(10.0f, std::uniform_real_distribution<float>(-18.0f, 18.0f)(random));
  return random() % 2 == 0 ? magnitude : -magnitude;
}

/// What the precision makes of an operand before the arithmetic starts.
float rounded(Precision precision, float value) {
  if (precision == Precision::fp16) return to_float(to_half(value));
  if (precision == Precision::bf16) return to_float(to_bfloat16(value));
  return value;
}

struct Kind {
  Precision precision;
  DType output;
  Layout layout = Layout::nchw;
};

class Sm90 : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    if (!cuda::implicit_gemm_sm90_supports(geometry(1, 32, 32, 8), options())) {
      GTEST_SKIP() << "no device of compute capability 9.0, or no sm_90a code in this binary";
    }
  }

  cuda::Conv2dOptions options() const {
    cuda::Conv2dOptions o;
    o.precision = GetParam().precision;
    o.output = GetParam().output;
    o.output_layout = GetParam().layout;
    return o;
  }

  /// Raw bytes of the output. The device buffer starts as NaN and stands between guards, which must survive.
  std::vector<unsigned char> run_raw(const ConvGeometry& g, const Data& d, bool relu = false, bool bias = true) const {
    cuda::Conv2dOptions o = options();
    o.relu = relu;
    EXPECT_TRUE(cuda::implicit_gemm_sm90_supports(g, o)) << describe(g);
    const auto kernel = cuda::make_implicit_gemm_sm90(g, o, d.w.data(), bias ? d.b.data() : nullptr);
    const std::size_t bytes = static_cast<std::size_t>(g.output_size()) * size_of(o.output);
    constexpr std::size_t guard = 4096;
    std::vector<unsigned char> poison(bytes + 2 * guard, 0xFF);
    const cuda::Buffer input(0, d.x.data(), d.x.size() * sizeof(float));
    const cuda::Buffer output(0, poison.data(), poison.size());
    kernel->run(input.data(), output.as<unsigned char>() + guard, nullptr, nullptr);
    std::vector<unsigned char> result(poison.size());
    detail::copy_bytes(result.data(), Device::cpu(), output.data(), Device::cuda(0), result.size());
    EXPECT_EQ(0, std::memcmp(result.data(), poison.data(), guard)) << "written before the output";
    EXPECT_EQ(0, std::memcmp(result.data() + guard + bytes, poison.data(), guard)) << "written behind the output";
    return {result.begin() + guard, result.end() - guard};
  }

  /// [N, OC, OH, OW]
  std::vector<float> run(const ConvGeometry& g, const Data& d, bool relu = false, bool bias = true) const {
    const std::vector<unsigned char> raw = run_raw(g, d, relu, bias);
    std::vector<float> y(static_cast<std::size_t>(g.output_size()));
    const auto channels = static_cast<std::size_t>(g.out_channels), pixels = static_cast<std::size_t>(g.out_pixels());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t image = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;
      const std::size_t at = GetParam().layout == Layout::nchw ? i : (image * pixels + pixel) * channels + channel;
      if (GetParam().output == DType::f32) {
        std::memcpy(&y[i], &raw[4 * at], 4);
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &raw[2 * at], 2);
        y[i] = GetParam().output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
      }
    }
    return y;
  }

  /// Every output against the contract; 16-bit outputs may add half a unit of their last place, and overflow to Inf.
  void expect_contract(const ConvGeometry& g, const Data& d, bool relu = false, bool bias = true) const {
    const Precision precision = GetParam().precision;
    Data seen = d;
    for (float& v : seen.x) v = rounded(precision, v);
    for (float& v : seen.w) v = rounded(precision, v);
    const ConvReference want = reference_conv2d(g, seen.x.data(), seen.w.data(), bias ? d.b.data() : nullptr);
    const std::vector<float> got = run(g, d, relu, bias);
    const double last_place = GetParam().output == DType::f16 ? 0x1p-11 : GetParam().output == DType::bf16 ? 0x1p-8 : 0;
    const double tiny = GetParam().output == DType::f16 ? 0x1p-25 : 0;
    const double largest = GetParam().output == DType::f16 ? 65504 : 3.4028234e38;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double y = relu && want.value[i] < 0 ? 0 : want.value[i];
      if (!std::isfinite(y)) {
        ASSERT_TRUE(std::isnan(y) ? std::isnan(got[i]) : got[i] == static_cast<float>(y))
            << describe(g) << ", output " << i << ": got " << got[i] << ", want " << y;
        continue;
      }
      if (std::abs(y) > 0.99 * largest) continue;
      const double bound = error_bound(g, precision, want.scale[i]) + last_place * std::abs(y) + tiny;
      ASSERT_LE(std::abs(got[i] - y), bound) << describe(g) << ", output " << i << ": got " << got[i] << ", want " << y;
    }
  }
};

TEST_P(Sm90, MeetsContractOnAlexNet) {
  for (const int filters : {96, 64}) {
    const ConvGeometry g = geometry(2, 224, 224, filters);
    expect_contract(g, random_data(g, 1, normal, normal));
  }
}

TEST_P(Sm90, FilterCountsAroundTiles) {
  for (const int filters : {1, 7, 31, 33, 47, 49, 63, 65, 95, 97, 130}) {
    const ConvGeometry g = geometry(1, 67, 75, filters);
    expect_contract(g, random_data(g, static_cast<unsigned>(filters), normal, normal));
  }
}

TEST_P(Sm90, OutputSizesAroundTiles) {
  // Output widths and heights whose pixels (and pixels with the windows' overhang) end around 64, odd input sizes,
  // single rows and columns.
  for (const int width : {1, 2, 3, 7, 8, 9, 31, 61, 62, 63, 64, 65, 127}) {
    for (const int height : {1, 2, 7}) {
      const ConvGeometry g = geometry(2, 4 * height + 3 + width % 4, 4 * width + 3 + height % 4, 24);
      expect_contract(g, random_data(g, static_cast<unsigned>(width), normal, normal));
    }
  }
}

TEST_P(Sm90, BatchesAroundTheDevice) {
  for (const int batch : {1, 3, 131, 132, 133, 265}) {
    const ConvGeometry g = geometry(batch, 27, 31, 8);
    expect_contract(g, random_data(g, static_cast<unsigned>(batch), normal, normal));
  }
}

TEST_P(Sm90, Relatives) {
  for (const int channels : {1, 2, 3, 4}) {
    for (const int kernel : {1, 3, 5, 7, 11}) {
      for (const int stride : {1, 2, 3, 4}) {
        const int padding = (kernel + stride) % 4;
        const ConvGeometry g = geometry(2, 41, 44, 20, kernel, stride, padding, channels);
        expect_contract(g, random_data(g, static_cast<unsigned>(kernel), normal, normal));
      }
    }
  }
  const ConvGeometry resnet = geometry(1, 224, 224, 64, 7, 2, 3);
  expect_contract(resnet, random_data(resnet, 1, normal, normal));
  const ConvGeometry wide = geometry(1, 30, 1999, 40);  // rows longer than the ring is wide: strips
  expect_contract(wide, random_data(wide, 1, normal, normal));
  ConvGeometry oblong = geometry(1, 60, 50, 33);
  oblong.kernel_height = 5, oblong.padding_height = 0, oblong.out_height = (60 - 5) / 4 + 1;
  expect_contract(oblong, random_data(oblong, 1, normal, normal));
}

TEST_P(Sm90, BiasAndRelu) {
  const ConvGeometry g = geometry(1, 67, 67, 40);
  const Data d = random_data(g, 5, normal, normal);
  expect_contract(g, d, true, true);
  expect_contract(g, d, true, false);
  expect_contract(g, d, false, false);
}

TEST_P(Sm90, OneSidedAndCancelling) {
  const ConvGeometry g = geometry(1, 224, 224, 96);
  expect_contract(g, random_data(g, 3, positive, positive));
  const ConvGeometry small = geometry(1, 99, 99, 64);
  Data d = random_data(small, 4, positive, positive);
  for (std::size_t i = 0; i < d.w.size(); i += 2) {
    if (i + 1 < d.w.size()) d.w[i + 1] = -d.w[i];
  }
  expect_contract(small, d);
  std::fill(d.x.begin(), d.x.end(), 1.0f + 0x1p-11f);  // the worst rounding of 11 bits, every time
  expect_contract(small, d);
}

TEST_P(Sm90, PixelRanges) {
  const ConvGeometry g = geometry(1, 99, 99, 48);
  for (const float range : {1e-9f, 1e-6f, 1.0f, 255.0f, 511.75f, 512.0f, 60000.0f}) {
    Data d = random_data(
        g, 6, [&](std::mt19937& r) { return range * normal(r) / 4; },
        [](std::mt19937& r) { return 0.05f * normal(r); });
    expect_contract(g, d);
  }
  // A single pixel in the dark: nothing else for its error to hide behind.
  for (const float value : {1e-20f, 3e-8f, 1.2e-7f, 4.7e-7f, 1e-3f, 1.0f + 0x1p-12f, 511.7f, 1e12f}) {
    Data d = random_data(
        g, 7, [](std::mt19937&) { return 0.0f; }, normal);
    std::fill(d.b.begin(), d.b.end(), 0.0f);
    d.x[99 * 50 + 50] = value;
    expect_contract(g, d);
  }
}

TEST_P(Sm90, WildlyMixedMagnitudes) {
  if (GetParam().precision == Precision::fp16) GTEST_SKIP() << "beyond f16's range by definition";
  const ConvGeometry g = geometry(1, 99, 99, 48);
  const auto small = [](std::mt19937& r) { return 0.05f * normal(r); };
  expect_contract(g, random_data(g, 8, wild, small));
  expect_contract(g, random_data(g, 9, normal, wild));
  expect_contract(g, random_data(g, 10, wild, wild));
  Data one = random_data(g, 11, normal, small);  // one wild filter among tame ones
  for (std::size_t i = 0; i < 363; ++i) one.w[5 * 363 + i] *= i % 2 == 0 ? 1e-18f : 1e18f;
  expect_contract(g, one);
}

TEST_P(Sm90, NonFinitePixelsStayInTheirWindows) {
  const ConvGeometry g = geometry(2, 99, 96, 40);
  for (const float value : {inf, -inf, nan}) {
    for (const int at :
         {0, 8, 9, 10, 11, 12, 95, 96 * 9, 96 * 10 + 50, 96 * 98 + 95, 96 * 99 + 11, 2 * 96 * 99 + 777}) {
      Data d = random_data(g, 12, normal, normal);
      d.x[static_cast<std::size_t>(at)] = value;
      expect_contract(g, d);
    }
  }
  Data d = random_data(g, 13, normal, normal);
  d.x[5000] = nan, d.x[5004] = inf, d.x[5008] = -inf;
  expect_contract(g, d, true);
}

TEST_P(Sm90, SameBitsEveryRun) {
  const ConvGeometry g = geometry(5, 224, 224, 96);
  Data d = random_data(g, 14, normal, normal);
  d.x[1234] = 1e-12f;
  const std::vector<unsigned char> first = run_raw(g, d);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(first, run_raw(g, d));
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return std::string(name(info.param.precision)) + "_" + std::string(name(info.param.output)) +
         (info.param.layout == Layout::nhwc ? "_nhwc" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, Sm90,
    testing::Values(Kind{Precision::fp32, DType::f32}, Kind{Precision::tf32, DType::f32},
                    Kind{Precision::fp16, DType::f16}, Kind{Precision::fp16, DType::f32},
                    Kind{Precision::bf16, DType::bf16}, Kind{Precision::bf16, DType::f32},
                    Kind{Precision::fp32, DType::f32, Layout::nhwc}, Kind{Precision::tf32, DType::f32, Layout::nhwc},
                    Kind{Precision::fp16, DType::f16, Layout::nhwc}, Kind{Precision::fp16, DType::f32, Layout::nhwc},
                    Kind{Precision::bf16, DType::bf16, Layout::nhwc}, Kind{Precision::bf16, DType::f32, Layout::nhwc}),
    kind_name);

TEST(Sm90Supports, DeclinesWhatItCannotDo) {
  if (detail::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const ConvGeometry good = geometry(1, 32, 32, 8);
  if (!cuda::implicit_gemm_sm90_supports(good, {})) GTEST_SKIP() << "no device of compute capability 9.0";
  const auto supports = [&](auto change) {
    ConvGeometry g = good;
    cuda::Conv2dOptions o;
    change(g, o);
    return cuda::implicit_gemm_sm90_supports(g, o);
  };
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.in_channels = 5; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.dilation_width = 2; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.stride_height = 3; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.kernel_height = 13; }));
  EXPECT_FALSE(supports([](ConvGeometry&, cuda::Conv2dOptions& o) { o.output = DType::f16; }));
  EXPECT_FALSE(supports([](ConvGeometry&, cuda::Conv2dOptions& o) { o.input = DType::f16; }));
  EXPECT_FALSE(supports([](ConvGeometry&, cuda::Conv2dOptions& o) { o.input_layout = Layout::nhwc; }));
  EXPECT_FALSE(supports([](ConvGeometry&, cuda::Conv2dOptions& o) { o.output_layout = Layout::blocked; }));
}

}  // namespace
}  // namespace lamina::test
