// The Hopper convolution against the double reference: every precision, at the edges of its tiles and rings, and with
// the inputs for which its contract is hardest to keep.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cuda/conv2d/first_layer/harness.h"

namespace lamina::test {
namespace {

TEST_P(Sm90, MeetsContractOnAlexNet) {
  for (const int filters : {96, 64}) {
    const ConvGeometry g = geometry(2, 224, 224, filters);
    expect_contract(g, random_data(g, 1, normal, normal));
  }
}

TEST_P(Sm90, FilterCountsAroundTiles) {
  for (const int filters : {1, 7, 8, 24, 31, 33, 47, 49, 56, 63, 65, 72, 95, 97, 104, 130}) {
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
  const std::vector<unsigned char> first = run_raw(g, d, options(g));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(first, run_raw(g, d, options(g)));
}

TEST_P(Sm90, Pooling) {
  if (!GetParam().pooled) GTEST_SKIP() << "for kinds that pool";
  const ConvGeometry resnet = geometry(1, 224, 224, 64, 7, 2, 3), alexnet = geometry(3, 224, 224, 64);
  cuda::Conv2dOptions o = options();
  o.pool = pool_geometry(resnet, 3, 2, 1);
  expect_contract(resnet, random_data(resnet, 15, normal, normal), o, true);
  const Data d = random_data(alexnet, 16, normal, normal);
  o.relu = true;
  for (const auto [kernel, stride, padding, ceil] :
       {std::array{3, 2, 0, 0}, {3, 2, 1, 0}, {2, 2, 0, 0}, {2, 2, 0, 1}, {2, 1, 1, 0}, {3, 3, 0, 1}, {1, 2, 0, 0}}) {
    o.pool = pool_geometry(alexnet, kernel, stride, padding, ceil != 0);
    expect_contract(alexnet, d, o, true);
  }
  o.pool = pool_geometry(alexnet);
  o.pool->kernel_width = 2;
  EXPECT_FALSE(cuda::implicit_gemm_sm90_supports(alexnet, o));
  o.pool = pool_geometry(alexnet, 3, 1);  // a row of the map would belong to three windows
  EXPECT_FALSE(cuda::implicit_gemm_sm90_supports(alexnet, o));
  o.pool = pool_geometry(alexnet);
  o.output_layout = Layout::nchw;
  EXPECT_FALSE(cuda::implicit_gemm_sm90_supports(alexnet, o));
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return std::string(name(info.param.precision)) + "_" + std::string(name(info.param.output)) +
         (info.param.layout == Layout::nhwc ? "_nhwc" : "") + (info.param.pooled ? "_pooled" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, Sm90,
    testing::Values(
        Kind{Precision::fp32, DType::f32}, Kind{Precision::tf32, DType::f32}, Kind{Precision::fp16, DType::f16},
        Kind{Precision::fp16, DType::f32}, Kind{Precision::bf16, DType::bf16}, Kind{Precision::bf16, DType::f32},
        Kind{Precision::fp32, DType::f32, Layout::nhwc}, Kind{Precision::tf32, DType::f32, Layout::nhwc},
        Kind{Precision::fp16, DType::f16, Layout::nhwc}, Kind{Precision::fp16, DType::f32, Layout::nhwc},
        Kind{Precision::bf16, DType::bf16, Layout::nhwc}, Kind{Precision::bf16, DType::f32, Layout::nhwc},
        Kind{Precision::fp32, DType::f32, Layout::nhwc, true}, Kind{Precision::tf32, DType::f32, Layout::nhwc, true},
        Kind{Precision::fp16, DType::f16, Layout::nhwc, true}, Kind{Precision::bf16, DType::bf16, Layout::nhwc, true}),
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
}

}  // namespace
}  // namespace lamina::test
