// Sums of codes at the ends of what they are stored in.

#include <cmath>

#include "compile/eight_bits.h"

namespace lamina::test::eight_bits_sums_test {
namespace {

/// ConvInteger, whose zero point is known, or is what the run before it gives; QLinearConv, whose result is rounded.
/// What is around an image is its zero point, also where the sides have pads of their own.
TEST(EightBitsOf, WholeSums) {
  const struct {
    bool known, rounded;
    DType weights;
    std::vector<std::int64_t> pads;
  } cases[] = {{true, false, DType::i8, {1, 0, 1, 0}},  {false, false, DType::i8, {1, 0, 1, 0}},
               {true, false, DType::u8, {1, 0, 1, 0}},  {false, false, DType::u8, {1, 0, 1, 0}},
               {true, false, DType::i8, {2, 1, 0, 0}},  {true, false, DType::u8, {0, 0, 1, 2}},
               {false, false, DType::u8, {2, 0, 0, 1}}, {true, true, DType::i8, {2, 1, 0, 0}}};
  for (const auto& [known, rounded, weights, pads] : cases) {
    Build build;
    const Tensor x = random_codes({1, 6, 7, 5}, DType::u8, 1), w = random_codes({9, 6, 3, 3}, weights, 2);
    const std::int64_t w_zero = weights == DType::u8 ? 77 : 0;
    const Value input = build.graph.input("x", {1, 6, 7, 5}, DType::u8);
    Value zero = build.constant(code(93, DType::u8));
    if (!known) {
      const Value any = build.op("ReduceMax", {build.op("Cast", {input}, {{"to", std::int64_t{1}}})},
                                 {{"keepdims", std::int64_t{0}}});
      const Value less = build.op("Mul", {any, build.constant(scalar(0.0f))});
      zero = build.op("Cast", {build.op("Add", {less, build.constant(scalar(93.0f))})}, {{"to", std::int64_t{2}}});
    }
    const Value filter = build.constant(w), w_zeros = build.constant(code(w_zero, weights));
    const Value one = build.constant(scalar(1.0f));
    build.graph.output(rounded ? build.op("QLinearConv",
                                          {input, one, zero, filter, one, w_zeros, build.constant(scalar(512.0f)),
                                           build.constant(code(128, DType::u8))},
                                          {{"pads", pads}})
                               : build.op("ConvInteger", {input, filter, zero, w_zeros}, {{"pads", pads}}));
    const std::vector<std::int64_t> xs = whole(x), ws = whole(w);
    const std::int64_t height = 5 + pads[0] + pads[2], width = 3 + pads[1] + pads[3];
    std::vector<std::int64_t> expected;
    for (std::int64_t f = 0; f < 9; ++f) {
      for (std::int64_t i = 0; i < height * width; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t t = 0; t < 6 * 9; ++t) {
          const std::int64_t row = i / width - pads[0] + t / 3 % 3, column = i % width - pads[1] + t % 3;
          if (row < 0 || row >= 7 || column < 0 || column >= 5) continue;
          sum += (xs[static_cast<std::size_t>((t / 9 * 7 + row) * 5 + column)] - 93) *
                 (ws[static_cast<std::size_t>(f * 54 + t)] - w_zero);
        }
        if (rounded) sum = std::clamp<std::int64_t>(std::lrint(static_cast<double>(sum) / 512) + 128, 0, 255);
        expected.push_back(sum);
      }
    }
    for (const Device device : devices_here()) {
      Plan plan = build.graph.compile({.device = device});
      EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << known << rounded << plan.summary();
    }
  }
}

/// With what a bias comes to a sum may be beyond i32: then it is computed in f32.
TEST(EightBitsOf, ABiasNearTheEndOfI32) {
  constexpr std::int64_t most = 2'147'483'647;
  for (const std::int64_t bias : {most, -most - 1, most - 64 * 32'640, most - 64 * 32'640 + 1}) {
    Build build;
    const Tensor ones = Tensor::from(std::vector<std::int64_t>(64, bias < 0 ? -127 : 127), {1, 64, 1, 1}).to(DType::i8);
    const Value one = build.constant(scalar(1.0f)), none = build.constant(code(0, DType::i8));
    const Value zero = build.constant(code(0, DType::u8));
    build.graph.output(
        build.op("QLinearConv", {build.graph.input("x", {1, 64, 1, 1}, DType::u8), one, zero, build.constant(ones), one,
                                 none, build.constant(scalar(0x1p24f)), build.constant(code(128, DType::u8)),
                                 build.constant(Tensor::from(std::vector<std::int64_t>{bias}, {1}).to(DType::i32))}));
    const double sum = static_cast<double>(bias) + (bias < 0 ? -1.0 : 1.0) * 64 * 127 * 255;
    const Tensor x = Tensor::from(std::vector<std::int64_t>(64, 255), {1, 64, 1, 1}).to(DType::u8);
    for (const Device device : devices_here()) {
      Plan plan = build.graph.compile({.device = device});
      const std::int64_t expected = std::clamp<std::int64_t>(std::lrint(sum / 0x1p24) + 128, 0, 255);
      EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), std::vector{expected}) << bias << plan.summary();
    }
  }
}

/// Numbers of f32 that are beyond the codes' range become codes before they are multiplied, whichever kernel does it,
/// and known numbers are added to products of any rank.
TEST(EightBitsOf, RangesInFrontOfProducts) {
  const Tensor x = Tensor::from(std::vector<float>{-500, 3, 500, NAN}, {1, 1, 2, 2});
  for (const bool rows : {false, true}) {
    for (const float bias : {0.0f, 10.0f}) {
      Build build;
      const Shape shape = rows ? Shape{4, 1} : Shape{1, 1, 2, 2};
      const Tensor w = Tensor::from(std::vector<std::int64_t>{1}, rows ? Shape{1, 1} : Shape{1, 1, 1, 1}).to(DType::i8);
      const Value q = build.dequantize(build.quantize(build.graph.input("x", shape), 1, 5, DType::u8), 1, 5, DType::u8);
      Value y = build.op(rows ? "MatMul" : "Conv", {q, build.dequantize(build.constant(w), 1, 0, DType::i8)});
      if (bias != 0) {
        y = build.dequantize(build.quantize(y, 2, 3, DType::u8), 2, 3, DType::u8);
        y = build.op("Add", {y, build.constant(Tensor::from(std::vector<float>{bias}, {1}))});
      }
      build.graph.output(y);
      const std::vector<float> expected =
          bias != 0 ? std::vector<float>{6, 14, 260, 6} : std::vector<float>{-5, 3, 250, -5};
      for (const Device device : devices_here()) {
        Plan plan = build.graph.compile({.device = device});
        const Tensor values = plan.run(x.view(shape)).to(Device::cpu());
        EXPECT_EQ(std::vector<float>(values.values<float>().begin(), values.values<float>().end()), expected)
            << plan.summary();
      }
    }
  }
}

/// A bias of f32 counts as well where the layer's codes are added to others.
TEST(EightBitsOf, AFloatBiasInFrontOfASum) {
  Build build;
  const Value input = build.graph.input("x", {batch, 16, 6, 6}, DType::u8);
  const Value weights =
      build.dequantize(build.constant(random_codes({16, 16, 1, 1}, DType::i8, 1)), 0.01f, 0, DType::i8);
  const Value x = build.dequantize(input, 0.02f, 128, DType::u8);
  const Value bias = build.constant(draw_floats({16}, 3));
  const Value y = build.op("Conv", {x, weights, bias});
  const Value sum =
      build.op("Add", {build.dequantize(build.quantize(y, 0.05f, 128, DType::u8), 0.05f, 128, DType::u8), x});
  build.graph.output(build.quantize(sum, 0.06f, 128, DType::u8));
  const Tensor codes = random_codes({2, 16, 6, 6}, DType::u8, 4);
  const auto expected = whole(build.graph.compile({.batch = 2, .keep_all = true}).run(codes));
  for (const Device device : devices_here()) {
    Plan plan = build.graph.compile({.device = device, .batch = 2});
    EXPECT_EQ(whole(plan.run(codes).to(Device::cpu())), expected) << plan.summary();
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_sums_test
