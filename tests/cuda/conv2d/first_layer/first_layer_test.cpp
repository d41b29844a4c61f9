// The Hopper convolution against the double reference: every precision, at the edges of its tiles and rings, and with
// the inputs for which its contract is hardest to keep.

#include <array>

#include "cuda/conv2d/first_layer/harness.h"

namespace lamina::test::first_layer_test {
namespace {

TEST_P(FirstLayer, MeetsContractOnAlexNet) {
  for (const int filters : {96, 64}) {
    const ConvGeometry g = geometry(2, 224, 224, filters);
    expect(g, draw(g, normal, normal, 1));
  }
}

TEST_P(FirstLayer, FilterCountsAroundTiles) {
  for (const int filters : {1, 7, 8, 24, 31, 33, 47, 49, 56, 63, 65, 72, 95, 97, 104, 130}) {
    const ConvGeometry g = geometry(1, 67, 75, filters);
    expect(g, draw(g, normal, normal, static_cast<unsigned>(filters)));
  }
}

TEST_P(FirstLayer, OutputSizesAroundTiles) {
  // Output widths and heights whose pixels (and pixels with the windows' overhang) end around 64, odd input sizes,
  // single rows and columns.
  for (const int width : {1, 2, 3, 7, 8, 9, 31, 61, 62, 63, 64, 65, 127}) {
    for (const int height : {1, 2, 7}) {
      const ConvGeometry g = geometry(2, 4 * height + 3 + width % 4, 4 * width + 3 + height % 4, 24);
      expect(g, draw(g, normal, normal, static_cast<unsigned>(width)));
    }
  }
}

TEST_P(FirstLayer, BatchesAroundTheDevice) {
  for (const int batch : {1, 3, 131, 132, 133, 265}) {
    const ConvGeometry g = geometry(batch, 27, 31, 8);
    expect(g, draw(g, normal, normal, static_cast<unsigned>(batch)));
  }
}

TEST_P(FirstLayer, Relatives) {
  for (const int channels : {1, 2, 3, 4}) {
    for (const int kernel : {1, 3, 5, 7, 11}) {
      for (const int stride : {1, 2, 3, 4}) {
        const int padding = (kernel + stride) % 4;
        const ConvGeometry g = geometry(2, 41, 44, 20, kernel, stride, padding, channels);
        expect(g, draw(g, normal, normal, static_cast<unsigned>(kernel)));
      }
    }
  }
  const ConvGeometry resnet = geometry(1, 224, 224, 64, 7, 2, 3);
  expect(resnet, draw(resnet, normal, normal, 1));
  for (const int width : {1999, 2000}) {
    const ConvGeometry wide = geometry(1, 30, width, 40);  // rows longer than the ring is wide: strips
    expect(wide, draw(wide, normal, normal, 1));
  }
  ConvGeometry oblong = geometry(1, 60, 50, 33);
  oblong.kernel_height = 5, oblong.padding_height = 0, oblong.out_height = (60 - 5) / 4 + 1;
  expect(oblong, draw(oblong, normal, normal, 1));
}

TEST_P(FirstLayer, BiasAndRelu) {
  const ConvGeometry g = geometry(1, 67, 67, 40);
  const ConvData d = draw(g, normal, normal, 5);
  expect(g, d, true, true);
  expect(g, d, true, false);
  expect(g, d, false, false);
}

TEST_P(FirstLayer, OneSidedAndCancelling) {
  const ConvGeometry g = geometry(1, 224, 224, 96);
  expect(g, draw(g, positive, positive, 3));
  const ConvGeometry small = geometry(1, 99, 99, 64);
  ConvData d = draw(small, positive, positive, 4);
  for (std::size_t i = 0; i < d.w.size(); i += 2) {
    if (i + 1 < d.w.size()) d.w[i + 1] = -d.w[i];
  }
  expect(small, d);
  std::fill(d.x.begin(), d.x.end(), 1.0f + 0x1p-11f);  // the worst rounding of 11 bits, every time
  expect(small, d);
}

TEST_P(FirstLayer, PixelRanges) {
  const ConvGeometry g = geometry(1, 99, 99, 48);
  for (const float range : {1e-9f, 1e-6f, 1.0f, 255.0f, 511.75f, 512.0f, 60000.0f}) {
    ConvData d = draw(
        g, [&](std::mt19937& r) { return range * normal(r) / 4; }, scaled(normal, 0.05f), 6);
    expect(g, d);
  }
  // A single pixel in the dark: nothing else for its error to hide behind.
  for (const float value : {1e-20f, 3e-8f, 1.2e-7f, 4.7e-7f, 1e-3f, 1.0f + 0x1p-12f, 511.7f, 1e12f}) {
    ConvData d = draw(g, constant(0.0f), normal, 7);
    std::fill(d.b.begin(), d.b.end(), 0.0f);
    d.x[99 * 50 + 50] = value;
    expect(g, d);
  }
}

TEST_P(FirstLayer, WildlyMixedMagnitudes) {
  if (GetParam().precision == Precision::fp16) GTEST_SKIP() << "beyond f16's range by definition";
  const ConvGeometry g = geometry(1, 99, 99, 48);
  const Draw small = scaled(normal, 0.05f);
  expect(g, draw(g, wild, small, 8));
  expect(g, draw(g, normal, wild, 9));
  expect(g, draw(g, wild, wild, 10));
  ConvData one = draw(g, normal, small, 11);  // one wild filter among tame ones
  for (std::size_t i = 0; i < 363; ++i) one.w[5 * 363 + i] *= i % 2 == 0 ? 1e-18f : 1e18f;
  expect(g, one);
}

TEST_P(FirstLayer, NonFinitePixelsStayInTheirWindows) {
  const ConvGeometry g = geometry(2, 99, 96, 40);
  for (const float value : {infinity, -infinity, nan}) {
    for (const int at :
         {0, 8, 9, 10, 11, 12, 95, 96 * 9, 96 * 10 + 50, 96 * 98 + 95, 96 * 99 + 11, 2 * 96 * 99 + 777}) {
      ConvData d = draw(g, normal, normal, 12);
      d.x[static_cast<std::size_t>(at)] = value;
      expect(g, d);
    }
  }
  for (const int width : {96, 97}) {
    const ConvGeometry rows = geometry(2, 99, width, 40);
    ConvData d = draw(rows, normal, normal, 13);
    d.x[5000] = nan, d.x[5004] = infinity, d.x[5008] = -infinity;
    expect(rows, d, true);
  }
}

TEST_P(FirstLayer, SameBitsEveryRun) {
  const ConvGeometry g = geometry(5, 224, 224, 96);
  ConvData d = draw(g, normal, normal, 14);
  d.x[1234] = 1e-12f;
  const std::vector<unsigned char> first = run_bytes(g, options(g), d, true);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(first, run_bytes(g, options(g), d, true));
}

TEST_P(FirstLayer, Functions) {
  const ConvGeometry g = geometry(2, 75, 67, 32, 3, 2, 1);
  ConvData d = draw(g, normal, normal, 15);
  d.x[7] = nan, d.x[1500] = infinity, d.x[4000] = 1e-12f;
  for (const PointwiseStep& step : {PointwiseStep{.function = Pointwise::clip, .a = 0, .b = 6},
                                    PointwiseStep{.function = Pointwise::clip, .a = -0.5, .b = 1},
                                    PointwiseStep{Pointwise::silu}, PointwiseStep{Pointwise::hard_swish}}) {
    KernelOptions o = options(g);
    o.chain = {step};
    if (!GetParam().pooled || takes(g, o)) expect(g, d, o, true);
  }
  KernelOptions o = options(g);
  o.chain = {{Pointwise::gelu}};
  EXPECT_FALSE(takes(g, o));
  o.chain = {{Pointwise::relu}, {Pointwise::silu}};
  EXPECT_FALSE(takes(g, o));
}

TEST_P(FirstLayer, Pooling) {
  if (!GetParam().pooled) GTEST_SKIP() << "for kinds that pool";
  const ConvGeometry resnet = geometry(1, 224, 224, 64, 7, 2, 3), alexnet = geometry(3, 224, 224, 64);
  KernelOptions o = options();
  o.pool = pool_geometry(resnet, 3, 2, 1);
  expect(resnet, draw(resnet, normal, normal, 15), o, true);
  const ConvData d = draw(alexnet, normal, normal, 16);
  o.relu = true;
  for (const auto [kernel, stride, padding, ceil] :
       {std::array{3, 2, 0, 0}, {3, 2, 1, 0}, {2, 2, 0, 0}, {2, 2, 0, 1}, {2, 1, 1, 0}, {3, 3, 0, 1}, {1, 2, 0, 0}}) {
    o.pool = pool_geometry(alexnet, kernel, stride, padding, ceil != 0);
    expect(alexnet, d, o, true);
  }
  o.pool = pool_geometry(alexnet);
  o.pool->kernel_width = 2;
  EXPECT_FALSE(takes(alexnet, o));
  o.pool = pool_geometry(alexnet, 3, 1);  // a row of the map would belong to three windows
  EXPECT_FALSE(takes(alexnet, o));
  o.pool = pool_geometry(alexnet);
  o.output.layout = Layout::nchw;
  EXPECT_FALSE(takes(alexnet, o));
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return std::string(name(info.param.precision)) + "_" + std::string(name(info.param.output)) +
         (info.param.layout == Layout::nhwc ? "_nhwc" : "") + (info.param.pooled ? "_pooled" : "") +
         (info.param.input == Format{} ? "" : "_of_" + std::string(name(info.param.input.dtype)) + "_") +
         (info.param.input == Format{} ? "" : std::string(name(info.param.input.layout)));
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, FirstLayer,
    testing::Values(
        Kind{Precision::fp32, DType::f32}, Kind{Precision::tf32, DType::f32}, Kind{Precision::fp16, DType::f16},
        Kind{Precision::fp16, DType::f32}, Kind{Precision::bf16, DType::bf16}, Kind{Precision::bf16, DType::f32},
        Kind{Precision::fp32, DType::f32, Layout::nhwc}, Kind{Precision::tf32, DType::f32, Layout::nhwc},
        Kind{Precision::fp16, DType::f16, Layout::nhwc}, Kind{Precision::fp16, DType::f32, Layout::nhwc},
        Kind{Precision::bf16, DType::bf16, Layout::nhwc}, Kind{Precision::bf16, DType::f32, Layout::nhwc},
        Kind{Precision::fp32, DType::f32, Layout::nhwc, true}, Kind{Precision::tf32, DType::f32, Layout::nhwc, true},
        Kind{Precision::fp16, DType::f16, Layout::nhwc, true}, Kind{Precision::bf16, DType::bf16, Layout::nhwc, true},
        Kind{Precision::fp32, DType::f32, Layout::nhwc, false, {DType::f32, Layout::nhwc}},
        Kind{Precision::tf32, DType::f32, Layout::nchw, false, {DType::f32, Layout::nhwc}},
        Kind{Precision::fp16, DType::f16, Layout::nchw, false, {DType::f16}},
        Kind{Precision::fp16, DType::f16, Layout::nhwc, true, {DType::f16}},
        Kind{Precision::fp16, DType::f16, Layout::nhwc, false, {DType::f16, Layout::nhwc}},
        Kind{Precision::bf16, DType::bf16, Layout::nhwc, false, {DType::bf16}},
        Kind{Precision::bf16, DType::f32, Layout::nchw, false, {DType::bf16, Layout::nhwc}}),
    kind_name);

class FirstLayerLimits : public OnHopper {};

TEST_F(FirstLayerLimits, DeclinesWhatItCannotDo) {
  const ConvGeometry good = geometry(1, 32, 32, 8);
  EXPECT_TRUE(takes(good, {.kernel = "first_layer"}));
  const auto supports = [&](auto change) {
    ConvGeometry g = good;
    KernelOptions o = {.kernel = "first_layer"};
    change(g, o);
    return takes(g, o);
  };
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.in_channels = 5; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.dilation_width = 2; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.stride_height = 3; }));
  EXPECT_FALSE(supports([](ConvGeometry& g, auto&) { g.kernel_height = 13; }));
  EXPECT_FALSE(supports([](ConvGeometry&, KernelOptions& o) { o.output.dtype = DType::f16; }));
  EXPECT_FALSE(supports([](ConvGeometry&, KernelOptions& o) { o.input.dtype = DType::f16; }));
  EXPECT_FALSE(
      supports([](ConvGeometry&, KernelOptions& o) { o.precision = Precision::fp16, o.input.dtype = DType::bf16; }));
  EXPECT_TRUE(supports([](ConvGeometry&, KernelOptions& o) { o.input.layout = Layout::nhwc; }));
}

}  // namespace
}  // namespace lamina::test::first_layer_test
