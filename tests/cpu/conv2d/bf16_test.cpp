
#include <optional>

#include "cpu/bf16_engines.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/kernel/kernel.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::cpu::bf16::bf16_test {
namespace {

using test::square;
using test::Values;

struct Options {
  Format input = {DType::bf16, Layout::nhwc}, output = {DType::bf16, Layout::nhwc};
  PointwiseChain chain = {};
  int threads = 2;
  bool biased = true;
};

/// The output as [N, OC, OH, OW]; all that is read and written stands between guard pages.
std::vector<float> run(const Engine& engine, const ConvGeometry& g, const test::ConvData& data, const Options& o,
                       const std::vector<float>& residual = {}) {
  const Shape in = {g.batch, g.in_channels, g.in_height, g.in_width};
  const Shape out = {g.batch, g.out_channels, g.out_height, g.out_width};
  Guarded<unsigned char> input(test::to_bytes(data.x, in, o.input));
  std::vector<unsigned char> added;
  if (!residual.empty()) added = test::to_bytes(residual, out, o.output);
  Guarded<unsigned char> other(added);
  Guarded<unsigned char> output(static_cast<std::int64_t>(detail::bytes_of(out, o.output)));
  ThreadPool pool(o.threads);
  for (const Layer& layer : layers_of(g, engine, o.input, o.threads)) {
    Guarded<std::uint16_t> weight((layer.packed_size() + 31) / 32 * 32);
    Guarded<float> bias(layer.bias_size()), workspace(static_cast<std::int64_t>(layer.workspace(o.threads) / 4));
    pack_weights(layer, data.w.data(), weight.data());
    pack_bias(layer, o.biased ? data.b.data() : nullptr, bias.data());
    convolve(layer,
             {.input = input.data(),
              .weight = weight.data(),
              .bias = bias.data(),
              .residual = residual.empty() ? nullptr : other.data(),
              .output = output.data(),
              .output_type = o.output.dtype},
             row_epilogue({.chain = o.chain}, describe(Device::cpu())), pool,
             reinterpret_cast<std::byte*>(workspace.data()));
  }
  const auto bytes = output.span();
  return test::to_values({bytes.begin(), bytes.end()}, out, o.output);
}

test::ConvReference reference(const ConvGeometry& g, const test::ConvData& data, bool biased = true) {
  const test::ConvData seen = test::rounded(data, Precision::bf16);
  return test::reference_conv2d(g, seen.x.data(), seen.w.data(), biased ? data.b.data() : nullptr);
}

class CpuBf16 : public testing::TestWithParam<Engine> {};

TEST_P(CpuBf16, KeepsTheContractOnEveryGeometry) {
  const bool model = GetParam().what == test::amx_models().front().what;
  for (const ConvGeometry& g : test::awkward_geometries()) {
    if (model && g.flops() > 2e6) continue;  // it is slow
    const test::ConvData data = test::draw(g, Values::mixed);
    const auto truth = reference(g, data);
    test::expect_contract(g, Precision::bf16, truth, run(GetParam(), g, data, {}));
    // f32 shows what the sums are: products of bf16 are exact in it, so they are as good as those of fp32.
    const auto sums = run(GetParam(), g, data, {.output = {DType::f32, Layout::nhwc}});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double bound = 4 * test::error_bound(g, Precision::fp32, truth.scale[i]);
      ASSERT_LE(std::abs(static_cast<double>(sums[i]) - truth.value[i]), bound)
          << test::describe(g) << ": output " << i;
    }
  }
}

// All remainders of tiles and blocks: of pixels, of filters, of channels.
TEST_P(CpuBf16, EveryRemainder) {
  const int step = GetParam().what == test::amx_models().front().what ? 3 : 1;
  for (int i = 1; i <= 70; i += step) {
    for (const int kernel : {1, 2}) {
      const ConvGeometry g = geometry_of(square(1, i, 3, 71 - i, 71 - i, kernel, 1, kernel - 1));
      const test::ConvData data = test::draw(g, Values::mixed);
      test::expect_contract(g, Precision::bf16, reference(g, data), run(GetParam(), g, data, {}));
    }
  }
}

TEST_P(CpuBf16, TakesOtherFormats) {
  for (const ConvGeometry& g :
       {geometry_of(square(2, 3, 19, 23, 7, 5, 2, 1)), geometry_of(square(2, 40, 9, 8, 5, 3, 1, 1)),
        geometry_of(square(2, 64, 9, 8, 40, 1)), geometry_of(square(1, 8, 9, 8, 6, 3, 2, 1, 1, 2))}) {
    const test::ConvData data = test::draw(g, Values::mixed);
    const auto expected = run(GetParam(), g, data, {});
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        EXPECT_EQ(run(GetParam(), g, data, {.input = {type, layout}}), expected)
            << test::describe(g) << ", " << Format{type, layout};
      }
    }
  }
}

TEST_P(CpuBf16, EpiloguesAreComputedBeforeRounding) {
  const std::vector<PointwiseChain> chains = {
      {{Pointwise::relu}},
      {{Pointwise::add, 1}},
      {{Pointwise::add, 1}, {Pointwise::relu}},
      {{.function = Pointwise::clip, .a = -0.5, .b = 0.25}},
      {{Pointwise::sigmoid}, {Pointwise::add, 1}, {Pointwise::relu}},
      {{Pointwise::relu}, {.function = Pointwise::mul, .a = 0.5}, {Pointwise::add, 1}},
      {{Pointwise::silu}},
      {{Pointwise::add, 1}, {Pointwise::gelu}},
      {{Pointwise::hard_swish}},
      {{Pointwise::relu}, {Pointwise::silu}},
      {{Pointwise::gelu}, {Pointwise::add, 1}}};
  for (const ConvGeometry& g :
       {geometry_of(square(2, 5, 7, 9, 37, 3, 1, 1)), geometry_of(square(2, 32, 5, 9, 70, 1))}) {
    const test::ConvData data = test::draw(g, Values::mixed);
    const auto truth = reference(g, data);
    std::vector<float> residual = test::draw(g.output_size(), Values::mixed, 77);
    for (float& x : residual) x = test::rounded(x, Precision::bf16);
    for (const PointwiseChain& chain : chains) {
      for (const DType type : {DType::bf16, DType::f32}) {
        const auto actual = run(GetParam(), g, data, {.output = {type, Layout::nhwc}, .chain = chain}, residual);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          double y = truth.value[i];
          for (const PointwiseStep& step : chain) {
            switch (step.function) {
              case Pointwise::relu: y = std::max(y, 0.0); break;
              case Pointwise::add: y += static_cast<double>(residual[i]); break;
              case Pointwise::mul: y *= step.a; break;
              case Pointwise::clip: y = std::clamp(y, step.a, step.b); break;
              case Pointwise::silu: y /= 1 + std::exp(-y); break;
              case Pointwise::gelu: y *= 0.5 * std::erfc(-y / std::sqrt(2.0)); break;
              case Pointwise::hard_swish: y *= std::clamp(y / 6 + 0.5, 0.0, 1.0); break;
              default: y = 1 / (1 + std::exp(-y));
            }
          }
          const double unit = type == DType::bf16 ? 1.0 / 256 : 1e-6;
          ASSERT_NEAR(actual[i], y, 1e-5 * truth.scale[i] + unit * std::abs(y))
              << test::describe(g) << ": output " << i;
        }
      }
    }
  }
}

TEST_P(CpuBf16, NanAndInfinityReachTheWindowsThatHoldThemAndNoOthers) {
  for (const ConvGeometry& g :
       {geometry_of(square(1, 3, 12, 12, 5, 3, 2, 1)), geometry_of(square(1, 40, 12, 12, 5, 3, 2, 1)),
        geometry_of(square(1, 32, 12, 12, 5, 1)), geometry_of(square(1, 33, 12, 12, 5, 1)),
        geometry_of(square(1, 34, 12, 12, 40, 3, 1, 10, 10))}) {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), test::infinity}) {
      test::ConvData data = test::draw(g, Values::positive);
      data.x[static_cast<std::size_t>(12 * 12 + 5 * 12 + 6)] = poison;  // channel 1, row 5, column 6
      const auto truth = reference(g, data);
      const auto output = run(GetParam(), g, data, {.chain = {{Pointwise::relu}}});
      for (std::size_t i = 0; i < output.size(); ++i) {
        EXPECT_EQ(std::isfinite(output[i]), std::isfinite(truth.value[i])) << test::describe(g) << ": output " << i;
      }
    }
  }
}

TEST_P(CpuBf16, NeitherThreadsNorTheBatchChangeABit) {
  for (const ConvGeometry& g :
       {geometry_of(square(3, 3, 31, 29, 10, 5, 2, 2)), geometry_of(square(3, 64, 17, 13, 70, 1)),
        geometry_of(square(3, 64, 17, 13, 33, 3, 1, 1)), geometry_of(square(3, 34, 13, 12, 40, 3, 1, 10, 10)),
        geometry_of(square(20, 40, 1, 1, 24, 1)), geometry_of(square(6, 40, 2, 2, 24, 1))}) {
    const test::ConvData data = test::draw(g, Values::mixed);
    constexpr Format sums = {DType::f32, Layout::nhwc};  // before they are rounded
    const auto expected = run(GetParam(), g, data, {.output = sums, .threads = 1});
    EXPECT_EQ(run(GetParam(), g, data, {.output = sums, .threads = 7}), expected) << test::describe(g);
    ConvGeometry one = g;
    one.batch = 1;
    test::ConvData last = data;
    last.x.assign(data.x.end() - one.input_size(), data.x.end());
    const std::vector<float> tail(expected.end() - one.output_size(), expected.end());
    EXPECT_EQ(run(GetParam(), one, last, {.output = sums, .threads = 1}), tail) << test::describe(g);
  }
}

TEST_P(CpuBf16, ColumnsThatSeeOtherTapsAreLayersOfTheirOwn) {
  const auto layers = [&](const ConvGeometry& g) { return layers_of(g, GetParam(), {DType::bf16, Layout::nhwc}, 2); };
  EXPECT_EQ(layers(geometry_of(square(1, 64, 28, 28, 256, 3, 1, 12, 12))).size(), 3u);
  EXPECT_EQ(layers(geometry_of(square(1, 64, 28, 28, 256, 3, 1, 1))).size(), 1u);
}

TEST_P(CpuBf16, MagnitudesFarApartKeepTheContract) {
  const ConvGeometry g = geometry_of(square(1, 40, 9, 9, 33, 3, 1, 1));
  const test::ConvData data = test::draw(g, test::mixed, test::mixed, 5);
  const auto truth = reference(g, data);
  const auto output = run(GetParam(), g, data, {});
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (truth.scale[i] > 3e38) continue;
    ASSERT_LE(std::abs(static_cast<double>(output[i]) - truth.value[i]),
              test::error_bound(g, Precision::bf16, truth.scale[i]))
        << i;
  }
}

// Of docs/inside/precision.md: the instructions for bf16 take subnormal operands for 0, f32 multiply-adds do not.
TEST_P(CpuBf16, SubnormalOperandsAreZeroOrThemselves) {
  const ConvGeometry g = geometry_of(square(1, 40, 3, 3, 5, 1));
  test::ConvData data = test::draw(g, test::constant(1e-39f), test::constant(1.0f), 1);
  data.b.assign(data.b.size(), 0.0f);
  const auto truth = reference(g, data);
  const bool kept = GetParam().unit == Unit::multiply_add;
  for (const float y : run(GetParam(), g, data, {.output = {DType::f32, Layout::nhwc}})) {
    EXPECT_EQ(y, kept ? static_cast<float>(truth.value[0]) : 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, CpuBf16, testing::ValuesIn(test::all_bf16_engines()),
                         [](const auto& engine) { return test::title(engine.param); });

// Forced descriptions: each path where it exists, never one that the description lacks.
TEST(CpuBf16Engines, TheDescriptionChooses) {
  DeviceDescription device = describe(Device::cpu());
  const View input = {.shape = {1, 32, 4, 4}, .format = {DType::bf16, Layout::nhwc}};
  const ConvProblem problem = {.geometry = geometry_of(square(1, 32, 4, 4, 32, 1)),
                               .weight = Tensor::zeros({32, 32, 1, 1})};
  const auto chosen = [&] {
    const Preparation p = {
        .inputs = {&input, 1}, .outputs = {&input, 1}, .device = device, .precision = Precision::bf16};
    return std::string(find_kernel(problem, p)->name) + " " + choose(problem, p).prepare(problem, p)->description();
  };
  const auto says = [&](std::string_view text) { return chosen().find(text) != std::string::npos; };
  EXPECT_TRUE(says(engines(DType::bf16).front().what)) << chosen();
  device.amx_bf16 = false;
  EXPECT_TRUE(says(device.avx512_bf16 ? "bf16_dot bf16: AVX512-BF16" : "bf16_fma")) << chosen();
  device.avx512_bf16 = false;
  EXPECT_TRUE(says("bf16_fma bf16: f32 multiply-adds")) << chosen();
  EXPECT_TRUE(says(name(device.instructions))) << chosen();
  device.instructions = InstructionSet::scalar;
  device.amx_bf16 = device.avx512_bf16 = true;  // what surrounds them needs AVX-512
  EXPECT_TRUE(says("bf16_fma")) << chosen();
}

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_test
