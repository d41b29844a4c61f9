// Networks that quantise and read again what they computed: in eight bits, by the formulas of docs/inside/precision.md.

#include <cmath>

#include "compile/eight_bits.h"
#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "support/networks.h"

namespace lamina::test::eight_bits_test {
namespace {

struct Case {
  int channels, filters, kernel, stride, padding, dilation, groups, size;
  DType input;
  bool per_channel, bias, relu;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.channels << " to " << c.filters << ", " << c.kernel << "x" << c.kernel << "/" << c.stride << " of "
             << c.groups << " groups, " << c.size << ", " << c.input;
}

constexpr float input_scale = 0.0215f, output_scale = 0.173f;

/// x u8 or i8 -> DequantizeLinear -> Conv of quantised weights -> [Relu] -> QuantizeLinear, and what the formulas say.
struct Convolved {
  Build build = {};
  Tensor x;
  std::vector<std::int64_t> expected;

  explicit Convolved(const Case& c) {
    const std::int64_t x_zero = c.input == DType::u8 ? 117 : -9, y_zero = c.input == DType::u8 ? 131 : 3;
    const int of_group = c.channels / c.groups;
    const Tensor weights = random_codes({c.filters, of_group, c.kernel, c.kernel}, DType::i8, 3);
    std::vector<float> scales;
    std::vector<std::int32_t> zeros(static_cast<std::size_t>(c.per_channel ? c.filters : 1)), bias;
    for (std::size_t i = 0; i < zeros.size(); ++i) scales.push_back(0.003f + 0.0007f * static_cast<float>(i % 11));
    const auto scale_of = [&](int filter) { return scales[c.per_channel ? static_cast<std::size_t>(filter) : 0]; };
    std::vector<float> bias_scales;
    for (int f = 0; f < c.filters; ++f) {
      bias.push_back(f * 911 % 4001 - 2000);
      bias_scales.push_back(input_scale * scale_of(f));
    }
    x = random_codes({2, c.channels, c.size, c.size + 1}, c.input, 5);
    const Value input = build.graph.input("x", {batch, c.channels, c.size, c.size + 1}, c.input);
    const auto one = static_cast<std::int64_t>(zeros.size());
    const Shape along = c.per_channel ? Shape{one} : Shape{};
    std::vector<Value> operands = {build.dequantize(input, input_scale, x_zero, c.input),
                                   build.op("DequantizeLinear",
                                            {build.constant(weights), build.constant(Tensor::from(scales, along)),
                                             build.constant(Tensor::zeros(along, DType::i8))},
                                            {{"axis", std::int64_t{0}}})};
    if (c.bias) {
      operands.push_back(build.op(
          "DequantizeLinear",
          {build.constant(Tensor::from(bias, {c.filters})), build.constant(Tensor::from(bias_scales, {c.filters}))},
          {{"axis", std::int64_t{0}}}));
    }
    const std::int64_t k = c.kernel, s = c.stride, p = c.padding, d = c.dilation;
    Value y = build.op("Conv", operands,
                       {{"strides", std::vector<std::int64_t>{s, s}},
                        {"pads", std::vector<std::int64_t>{p, p, p, p}},
                        {"dilations", std::vector<std::int64_t>{d, d}},
                        {"group", std::int64_t{c.groups}}});
    if (c.relu) y = build.op("Relu", {y});
    build.graph.output(build.quantize(y, output_scale, y_zero, c.input));

    const std::vector<std::int64_t> xs = whole(x), ws = whole(weights);
    const std::int64_t height = c.size, width = c.size + 1, window = d * (k - 1) + 1;
    const std::int64_t out_height = (height + 2 * p - window) / s + 1, out_width = (width + 2 * p - window) / s + 1;
    const std::int64_t low = c.input == DType::u8 ? 0 : -128;
    for (std::int64_t n = 0; n < 2; ++n) {
      for (int f = 0; f < c.filters; ++f) {
        const float factor = input_scale * scale_of(f) / output_scale;
        for (std::int64_t i = 0; i < out_height * out_width; ++i) {
          std::int64_t sum = c.bias ? bias[static_cast<std::size_t>(f)] : 0;
          for (std::int64_t t = 0; t < of_group * k * k; ++t) {
            const std::int64_t channel = f / (c.filters / c.groups) * of_group + t / (k * k);
            const std::int64_t row = i / out_width * s - p + t / k % k * d, column = i % out_width * s - p + t % k * d;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const auto at = static_cast<std::size_t>(((n * c.channels + channel) * height + row) * width + column);
            sum += (xs[at] - x_zero) * ws[static_cast<std::size_t>(f * of_group * k * k + t)];
          }
          const auto rounded = static_cast<std::int64_t>(std::rint(static_cast<float>(sum) * factor)) + y_zero;
          expected.push_back(std::clamp(rounded, c.relu ? y_zero : low, low + 255));
        }
      }
    }
  }
};

constexpr DType u8 = DType::u8, i8 = DType::i8;
const Case cases[] = {
    {3, 33, 7, 2, 3, 1, 1, 23, u8, true, true, true},    {3, 16, 3, 2, 1, 1, 1, 20, i8, false, true, false},
    {64, 40, 1, 1, 0, 1, 1, 9, u8, true, true, false},   {64, 64, 3, 1, 1, 1, 1, 12, u8, true, true, true},
    {130, 70, 3, 2, 1, 1, 1, 11, i8, true, false, true}, {32, 32, 3, 1, 2, 2, 1, 10, u8, false, true, true},
    {40, 40, 3, 1, 1, 1, 40, 13, u8, true, true, true},  {40, 40, 5, 2, 2, 1, 40, 13, i8, true, true, false},
    {9, 9, 3, 1, 1, 1, 9, 8, u8, true, true, true},      {64, 64, 3, 1, 1, 1, 16, 8, u8, true, true, true},
    {24, 12, 3, 1, 1, 1, 3, 8, i8, true, true, true},    {21, 14, 3, 1, 0, 1, 7, 8, u8, true, true, false},
    {1, 8, 5, 1, 2, 1, 1, 8, u8, false, false, true},    {256, 96, 1, 2, 0, 1, 1, 8, i8, true, true, true},
    {512, 48, 3, 1, 1, 1, 1, 5, u8, true, true, true}};

class EightBits : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Conv, EightBits, testing::ValuesIn(cases));

TEST_P(EightBits, ConvolutionsHaveTheBitsOfTheFormula) {
  const Convolved c(GetParam());
  EXPECT_NE(c.build.graph.plan_summary({.batch = 2}).find("int8"), std::string::npos);
  for (const std::string_view kernel : {"", "int8_lanes", "int8_amx", "int8_dot", "int8_fma", "int8_direct"}) {
    for (const int threads : {1, 3}) {
      try {
        Plan plan = c.build.graph.compile({.batch = 2, .threads = threads, .algorithm = std::string(kernel)});
        EXPECT_EQ(whole(plan.run(c.x)), c.expected) << GetParam() << ", " << kernel;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("algorithm"), std::string::npos) << kernel << ": " << error.what();
        EXPECT_FALSE(kernel.empty() || kernel == "int8_direct") << error.what();
      }
    }
  }
}

/// What is between is computed in f32 where everything is kept.
TEST_P(EightBits, AreWithinAStepOfTheSameUnfused) {
  const Convolved c(GetParam());
  Plan plan = c.build.graph.compile({.batch = 2, .keep_all = true});
  const std::vector<std::int64_t> unfused = whole(plan.run(c.x));
  ASSERT_EQ(unfused.size(), c.expected.size());
  std::int64_t off = 0;
  for (std::size_t i = 0; i < unfused.size(); ++i) off = std::max(off, std::abs(unfused[i] - c.expected[i]));
  EXPECT_LE(off, 1) << GetParam();
}

/// More products than their sum has room for are multiplied in f32.
TEST(EightBitSums, NeverWrap) {
  Build build;
  constexpr std::int64_t terms = 65'794;
  const Value input = build.graph.input("x", {batch, terms}, DType::u8);
  const Tensor least = Tensor::from(std::vector<std::int64_t>(terms, -128), {1, terms}).to(DType::i8);
  const Value y = build.op(
      "Gemm", {build.dequantize(input, 1, 0, DType::u8), build.dequantize(build.constant(least), 1, 0, DType::i8)},
      {{"transB", std::int64_t{1}}});
  build.graph.output(y);
  Plan plan = build.graph.compile({});
  const Tensor x = Tensor::from(std::vector<std::int64_t>(terms, 255), {1, terms}).to(DType::u8);
  EXPECT_NEAR(plan.run(x).values<float>()[0], -255.0 * 128 * terms, 255.0 * 128 * terms * 1e-5);
}

}  // namespace
}  // namespace lamina::test::eight_bits_test
