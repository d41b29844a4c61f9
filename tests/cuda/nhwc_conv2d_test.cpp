// The channels-last convolution computes what it takes, on every tile, however it is shared out, and nothing else.

#include "lamina/cuda/nhwc_conv2d.h"

#include <cstdlib>

#include "implicit_gemm_harness.h"
#include "lamina/cuda/nhwc_choice.h"
#include "lamina/cuda/stream.h"

namespace lamina::cuda {
namespace {

constexpr const auto& nhwc_precisions = precisions;

DType storage(Precision precision) {
  return precision == Precision::fp16 ? DType::f16 : precision == Precision::bf16 ? DType::bf16 : DType::f32;
}

Conv2dOptions options_for(Precision precision, bool relu = false) {
  return {.precision = precision,
          .input = storage(precision),
          .output = storage(precision),
          .input_layout = Layout::nhwc,
          .output_layout = Layout::nhwc,
          .relu = relu};
}

/// [N, C, H, W] and [N, H, W, C] elements, by their place in the former.
template <class Visit>
void for_each_place(std::int64_t batch, int channels, std::int64_t pixels, Visit&& visit) {
  std::size_t at = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (int c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        visit(at++, static_cast<std::size_t>((n * pixels + p) * channels + c));
      }
    }
  }
}

/// The bytes of the output, channels last.
std::vector<unsigned char> run_nhwc_bytes(const ConvGeometry& g, const Conv2dOptions& options, const Data& data,
                                          bool biased, const NhwcChoice& choice) {
  const auto kernel = make_nhwc_conv2d(g, options, data.w.data(), biased ? data.b.data() : nullptr, choice);
  EXPECT_EQ(kernel->workspace_bytes(), 0u);
  std::vector<float> x(data.x.size());
  for_each_place(g.batch, g.in_channels, g.in_pixels(), [&](auto nchw, auto nhwc) { x[nhwc] = data.x[nchw]; });
  Buffer input;
  if (options.input == DType::f32) {
    input = Buffer(0, x.data(), x.size() * sizeof(float));
  } else {
    const auto bits = to_bits(x, options.input);
    input = Buffer(0, bits.data(), bits.size() * 2);
  }
  const Guarded output(static_cast<std::size_t>(g.output_size()) * size_of(options.output));
  kernel->run(input.data(), output.data(), nullptr, nullptr);
  check(cudaDeviceSynchronize());
  return output.read();
}

std::vector<float> run_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                            const NhwcChoice& choice) {
  const auto bytes = run_nhwc_bytes(g, options, data, biased, choice);
  std::vector<float> values(static_cast<std::size_t>(g.output_size()));
  for_each_place(g.batch, g.out_channels, g.out_pixels(), [&](auto nchw, auto nhwc) {
    if (options.output == DType::f32) {
      std::memcpy(&values[nchw], bytes.data() + 4 * nhwc, 4);
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * nhwc, 2);
      values[nchw] = options.output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
    }
  });
  return values;
}

std::string describe(const ConvGeometry& g, const Conv2dOptions& options, const NhwcChoice& choice) {
  return detail::concat(describe(g, options, ImplicitGemmChoice{choice.tile, choice.splits}), ", multicast ",
                        choice.multicast);
}

/// The operands as the precision stores them.
Data rounded(Data data, Precision precision) {
  for (float& v : data.x) v = round_to(v, precision);
  for (float& v : data.w) v = round_to(v, precision);
  return data;
}

ConvReference reference_for(const ConvGeometry& g, const Data& data, bool biased) {
  return reference_conv2d(g, data.x.data(), data.w.data(), biased ? data.b.data() : nullptr);
}

/// Runs and compares every output with the reference; the worst error as a share of the bound.
double expect_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                   const ConvReference& reference, const NhwcChoice& choice = {}) {
  return expect_outputs(g, options, reference, run_nhwc(g, options, data, biased, choice),
                        describe(g, options, choice));
}

double expect_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& unrounded, bool biased,
                   const NhwcChoice& choice = {}) {
  const Data data = rounded(unrounded, options.precision);
  return expect_nhwc(g, options, data, biased, reference_for(g, data, biased), choice);
}

// Around tiles of 64 filters and 48 to 256 pixels, slabs of 32 and 64 channels, images of one pixel and of many.
const std::vector<Case> nhwc_cases = {
    {.in = 64, .height = 8, .width = 8, .out = 64},
    {.in = 8, .height = 5, .width = 7, .out = 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 64, .height = 9, .width = 11, .out = 192, .kernel = {5, 5}, .padding = {2, 2}},
    {.batch = 3, .in = 192, .height = 13, .width = 13, .out = 384, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 384, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 72, .height = 10, .width = 9, .out = 72, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2,
     .in = 32,
     .height = 20,
     .width = 22,
     .out = 56,
     .kernel = {3, 3},
     .padding = {2, 2},
     .dilation = {2, 2}},
    {.in = 40, .height = 25, .width = 19, .out = 24, .kernel = {3, 5}, .padding = {4, 1}, .dilation = {4, 3}},
    {.batch = 2,
     .in = 96,
     .height = 17,
     .width = 13,
     .out = 136,
     .kernel = {3, 5},
     .stride = {2, 3},
     .padding = {1, 2}},
    {.in = 16, .height = 19, .width = 19, .out = 16, .kernel = {3, 3}, .stride = {5, 7}},
    {.in = 24, .height = 20, .width = 20, .out = 128, .kernel = {2, 2}, .stride = {6, 6}},
    {.in = 8,
     .height = 9,
     .width = 9,
     .out = 8,
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {7, 7},
     .dilation = {3, 3}},
    {.in = 8, .height = 2, .width = 2, .out = 16, .kernel = {5, 5}, .padding = {4, 4}},
    {.batch = 5, .in = 48, .height = 1, .width = 1, .out = 130 * 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 37, .in = 136, .height = 1, .width = 1, .out = 40},
    {.batch = 259, .in = 576, .height = 1, .width = 1, .out = 1000},
    {.in = 128, .height = 1, .width = 257, .out = 320, .kernel = {1, 3}, .padding = {0, 1}},
    {.in = 16, .height = 211, .width = 3, .out = 8, .kernel = {11, 2}, .stride = {3, 1}, .padding = {5, 0}},
    {.batch = 131, .in = 8, .height = 3, .width = 3, .out = 8, .kernel = {3, 3}},
    {.batch = 3, .in = 64, .height = 14, .width = 14, .out = 128, .kernel = {1, 1}, .stride = {2, 2}},
    {.in = 8, .height = 40, .width = 40, .out = 8, .kernel = {33, 31}, .padding = {16, 15}},
};

class NhwcConv2d : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    if (!nhwc_conv2d_supports(geometry_of(nhwc_cases[0]), options_for(Precision::fp16))) {
      GTEST_SKIP() << "needs compute capability 9.0 and a build with sm_90a code";
    }
  }
};

/// Under a sanitizer, which takes a hundred times as long: fewer of the same.
bool reduced() { return std::getenv("LAMINA_TEST_REDUCED") != nullptr; }

TEST_F(NhwcConv2d, EveryGeometryMeetsTheContractInEveryPrecision) {
  unsigned seed = 1;
  for (const Precision precision : nhwc_precisions) {
    double worst = 0;
    for (const Case& c : nhwc_cases) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && g.flops() > 3e7) continue;
      const Conv2dOptions options = options_for(precision, (seed & 1) != 0);
      ASSERT_TRUE(nhwc_conv2d_supports(g, options));
      worst = std::max(worst, expect_nhwc(g, options, draw(g, normal, normal, seed), (seed & 2) != 0));
      ++seed;
    }
    RecordProperty("worst_share_of_bound_" + std::string(name(precision)), std::to_string(worst));
  }
}

TEST_F(NhwcConv2d, EveryTileHoweverShared) {
  unsigned seed = 1000;
  for (const Precision precision : nhwc_precisions) {
    const auto count = static_cast<int>(nhwc::tiles(precision).size());
    for (const std::size_t i : {5u, 6u, 8u, 14u}) {
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      if (reduced() && i != 5u) continue;
      const Data data = rounded(draw(g, normal, normal, ++seed), precision);
      const ConvReference reference = reference_for(g, data, true);
      for (int tile = 0; tile < count; ++tile) {
        for (const NhwcChoice& choice :
             {NhwcChoice{tile, 1, 1}, {tile, 2, 1}, {tile, 4, 1}, {tile, 1, 2}, {tile, 1, 3}}) {
          const Conv2dOptions options = options_for(precision, (++seed & 1) != 0);
          if (nhwc::choose(g, options, choice)) expect_nhwc(g, options, data, true, reference, choice);
        }
      }
    }
  }
}

TEST_F(NhwcConv2d, SplitsUpToEight) {
  const ConvGeometry g = geometry_of(nhwc_cases[4]);
  for (const Precision precision : nhwc_precisions) {
    const Data data = draw(g, normal, normal, 5);
    for (int splits = 1; splits <= 8; ++splits) {
      expect_nhwc(g, options_for(precision), data, true, {.tile = 1, .multicast = 1, .splits = splits});
      if (reduced()) break;
    }
  }
}

TEST_F(NhwcConv2d, GivesF32From16Bits) {
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    for (const std::size_t i : {2u, 5u, 14u, 15u}) {
      if (reduced() && i != 5u) continue;
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      Conv2dOptions options = options_for(precision, true);
      options.output = DType::f32;
      const Data data = draw(g, normal, normal, 7);
      expect_nhwc(g, options, data, true);
      expect_nhwc(g, options, data, true, {.tile = 5, .multicast = 1, .splits = 2});
      expect_nhwc(g, options, data, true, {.tile = 16, .multicast = 2, .splits = 1});
    }
  }
}

TEST_F(NhwcConv2d, SameBitsEveryRun) {
  const ConvGeometry g = geometry_of(nhwc_cases[3]);
  for (const Precision precision : nhwc_precisions) {
    const Data data = draw(g, normal, normal, 43);
    for (const NhwcChoice& choice : {NhwcChoice{}, {-1, 1, 7}, {-1, 2, 1}}) {
      const auto first = run_nhwc_bytes(g, options_for(precision), data, true, choice);
      for (int repeat = 0; repeat < 3; ++repeat) {
        ASSERT_EQ(first, run_nhwc_bytes(g, options_for(precision), data, true, choice));
      }
      if (reduced()) break;
    }
  }
}

// A product with one weight of 1 gives the operand itself: exact in TF32, and rounded to nearest if it was not.
TEST_F(NhwcConv2d, Tf32OperandsAreRoundedToNearest) {
  const ConvGeometry g = geometry_of({.in = 32, .height = 40, .width = 40, .out = 32});
  Data data = draw(g, normal, normal, 3);
  for (std::size_t i = 0; i < data.w.size(); ++i) data.w[i] = i / 32 == i % 32 ? 1.0f : 0.0f;
  const auto y = run_nhwc(g, options_for(Precision::tf32), data, false, {});
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float nearest = std::bit_cast<float>(round_to_tf32(std::bit_cast<std::uint32_t>(data.x[i])));
    // Ties may go either way.
    ASSERT_LE(std::abs(y[i] - data.x[i]), std::abs(nearest - data.x[i]))
        << i << ": " << data.x[i] << " became " << y[i];
  }
}

TEST_F(NhwcConv2d, NanAndInfReachTheirWindowsAlone) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  for (const Precision precision : nhwc_precisions) {
    const int tile = precision == Precision::fp32 ? 3 : 5;
    for (const NhwcChoice& choice : {NhwcChoice{tile, 1, 1}, {tile, 2, 1}, {tile, 1, 3}}) {
      Data data = draw(g, normal, positive, 11);
      data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
      expect_nhwc(g, options_for(precision, true), data, true, choice);
    }
  }
}

// Sums beyond the format's largest number are Inf, not NaN.
TEST_F(NhwcConv2d, Overflow) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    for (const int splits : {1, 2}) {
      Data data = draw(g, positive, positive, 13);
      for (float& x : data.x) x *= 1e38f;
      for (float& w : data.w) w *= 100.0f;
      for (const float y : run_nhwc(g, options_for(precision), data, true, {-1, 1, splits})) ASSERT_EQ(y, infinity);
    }
  }
}

// Magnitudes from 1e-18 to 1e18 in one image or filter, sums of one sign, and what is subnormal or nearly.
TEST_F(NhwcConv2d, Fp32HoldsOnAwkwardValues) {
  const auto scaled = [](const Draw& draw, float factor) {
    return [=](std::mt19937& random) { return draw(random) * factor; };
  };
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  unsigned seed = 70;
  for (const int splits : {1, 3}) {
    const NhwcChoice choice{-1, 1, splits};
    for (const auto& [x, w] : {std::pair<Draw, Draw>{positive, positive},
                               {mixed, normal},
                               {normal, mixed},
                               {mixed, mixed},
                               {scaled(normal, 1e-38f), normal},
                               {scaled(normal, 1e-42f), scaled(normal, 1e20f)},
                               {normal, scaled(normal, 1e-36f)},
                               {scaled(normal, 1e36f), scaled(normal, 1e-36f)}}) {
      const double worst = expect_nhwc(g, options_for(Precision::fp32), draw(g, x, w, ++seed), false, choice);
      RecordProperty("worst_" + std::to_string(seed), std::to_string(worst));
      if (reduced()) break;
    }
  }
}

TEST_F(NhwcConv2d, RunsInAGraphOnOtherBuffers) {
  const ConvGeometry g = geometry_of(nhwc_cases[0]);
  const Conv2dOptions options = options_for(Precision::fp16);
  const Data data = draw(g, normal, normal, 17);
  const auto kernel = make_nhwc_conv2d(g, options, data.w.data(), data.b.data());
  const auto first = run_nhwc_bytes(g, options, data, true, {});
  std::vector<float> x(data.x.size());
  for_each_place(g.batch, g.in_channels, g.in_pixels(), [&](auto nchw, auto nhwc) { x[nhwc] = data.x[nchw]; });
  const auto bits = to_bits(x, DType::f16);
  const Buffer input(0, bits.data(), bits.size() * 2);
  const Guarded a(first.size()), b(first.size());
  const OwnedStream stream(0);
  const CapturedGraph graph(0, [&](Stream s) {
    kernel->run(input.data(), a.data(), nullptr, s);
    kernel->run(input.data(), b.data(), nullptr, s);
  });
  graph.launch(stream.get());
  synchronize(0, stream.get());
  EXPECT_EQ(a.read(), first);
  EXPECT_EQ(b.read(), first);
}

// Blocks of a kernel begin beside those of the one before it: with its weights, but not before its result.
TEST_F(NhwcConv2d, LayersOverlapWithoutRunningAhead) {
  for (const Precision precision : nhwc_precisions) {
    const Conv2dOptions options = options_for(precision, true);
    std::vector<std::unique_ptr<Conv2dKernel>> layers;
    std::vector<Buffer> values;
    const auto add = [&](const Case& c) {
      const ConvGeometry g = geometry_of(c);
      const Data data = draw(g, normal, normal, static_cast<unsigned>(layers.size()) + 90);
      layers.push_back(make_nhwc_conv2d(g, options, data.w.data(), data.b.data()));
      if (values.empty()) values.emplace_back(0, static_cast<std::size_t>(g.input_size()) * size_of(options.input));
      values.emplace_back(0, static_cast<std::size_t>(g.output_size()) * size_of(options.output));
    };
    add({.in = 64, .height = 13, .width = 13, .out = 192, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 192, .height = 13, .width = 13, .out = 384, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 384, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 256, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 256, .height = 13, .width = 13, .out = 64, .kernel = {1, 1}});
    const OwnedStream stream(0);
    const auto run = [&](std::size_t layer, Stream s) {
      layers[layer]->run(values[layer].data(), values[layer + 1].data(), nullptr, s);
    };
    const CapturedGraph graph(0, [&](Stream s) {
      for (std::size_t layer = 0; layer < layers.size(); ++layer) run(layer, s);
    });
    for (unsigned input = 0; input < (reduced() ? 1 : 20); ++input) {
      std::mt19937 random(input);
      std::vector<float> x(values[0].bytes() / size_of(options.input));
      for (float& v : x) v = normal(random);
      const auto bits = options.input == DType::f32 ? std::vector<std::uint16_t>{} : to_bits(x, options.input);
      upload(0, values[0].data(), bits.empty() ? static_cast<const void*>(x.data()) : bits.data(), values[0].bytes(),
             stream.get());
      const auto result = [&] {
        std::vector<unsigned char> bytes(values.back().bytes());
        download(0, bytes.data(), values.back().data(), bytes.size(), stream.get());
        synchronize(0, stream.get());
        return bytes;
      };
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        run(layer, stream.get());
        synchronize(0, stream.get());
      }
      const auto one_by_one = result();
      for (std::size_t i = 1; i < values.size(); ++i) {
        fill_bytes(0, values[i].data(), 0xff, values[i].bytes(), stream.get());
      }
      graph.launch(stream.get());
      ASSERT_EQ(result(), one_by_one) << name(precision) << ", input " << input;
    }
  }
}

TEST_F(NhwcConv2d, RefusesWhatItCannotDo) {
  const auto takes = [](Case c, const auto& change) {
    Conv2dOptions options = options_for(Precision::fp16);
    change(c, options);
    return nhwc_conv2d_supports(geometry_of(c), options);
  };
  const Case c = nhwc_cases[1];
  EXPECT_TRUE(takes(c, [](Case&, Conv2dOptions&) {}));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.in = 12; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.out = 12; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.groups = 2; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.stride[1] = 9; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.input_layout = Layout::nchw; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.input = DType::f32; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.output = DType::bf16; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.precision = Precision::fp32; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.pool = PoolGeometry{}; }));
}

}  // namespace
}  // namespace lamina::cuda
