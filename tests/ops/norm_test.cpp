#include "support/windows_reference.h"

namespace lamina::test::norm_test {
namespace {

constexpr double tolerance = 2e-5;

/// Elements of a tensor [outer, length, inner] whose middle is normalised, one line at a time.
template <class F>
std::vector<double> by_line(const Tensor& x, std::int64_t outer, std::int64_t length, std::int64_t inner, F&& f) {
  std::vector<double> values = doubles(x);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t l) { return static_cast<std::size_t>((o * length + l) * inner + i); };
      std::vector<double> line;
      for (std::int64_t l = 0; l < length; ++l) line.push_back(values[at(l)]);
      f(line);
      for (std::int64_t l = 0; l < length; ++l) values[at(l)] = line[static_cast<std::size_t>(l)];
    }
  }
  return values;
}

void centre(std::vector<double>& line, double eps, bool centred = true) {
  double mean = 0, square = 0;
  for (const double x : line) mean += x / static_cast<double>(line.size());
  if (!centred) mean = 0;
  for (const double x : line) square += (x - mean) * (x - mean) / static_cast<double>(line.size());
  for (double& x : line) x = (x - mean) / std::sqrt(square + eps);
}

TEST(NormOps, BatchNormOfAnyRank) {
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 4, 5}, Shape{2, 4, 3, 5}, Shape{2, 4, 2, 3, 5}}) {
    const Tensor x = draw_floats(shape, 1), scale = draw_floats({4}, 2), bias = draw_floats({4}, 3);
    const Tensor mean = draw_floats({4}, 4), variance = draw_floats({4}, 5, DType::f32, Values::positive);
    std::vector<double> expected = doubles(x);
    const std::int64_t inner = shape.numel() / shape[0] / 4;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % 4);
      expected[i] = (expected[i] - doubles(mean)[c]) / std::sqrt(doubles(variance)[c] + 0.01) * doubles(scale)[c] +
                    doubles(bias)[c];
    }
    const Expanded expanded(Op("BatchNormalization", {{"epsilon", 0.01}}), {x, scale, bias, mean, variance}, {0});
    expect_close(expanded.run(), shape, expected, tolerance, shape.to_string());
  }
}

TEST(NormOps, BatchNormInTrainingOfAConstantIsAConstant) {
  const Op op("BatchNormalization", {{"training_mode", std::int64_t{1}}, {"epsilon", 0.01}});
  for (const Shape& shape : {Shape{6}, Shape{1, 4, 27}, Shape{3, 4}, Shape{2, 4, 3, 5}, Shape{1, 4, 0}}) {
    const std::int64_t channels = shape.rank() > 1 ? 4 : 1, inner = shape.rank() > 2 ? shape.numel() / shape[0] / 4 : 1;
    const Tensor x = draw_floats(shape, 1), scale = draw_floats({channels}, 2), bias = draw_floats({channels}, 3);
    std::vector<double> expected = doubles(x);
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      std::vector<double> line;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(channels) != c) continue;
        line.push_back(expected[i]);
        places.push_back(i);
      }
      centre(line, 0.01);
      for (std::size_t i = 0; i < line.size(); ++i)
        expected[places[i]] = line[i] * doubles(scale)[c] + doubles(bias)[c];
    }
    const Expanded expanded(op, {x, scale, bias, scale, bias});
    EXPECT_EQ(expanded.computed(), 0) << shape;
    expect_close(expanded.run(), shape, expected, 1e-7, shape.to_string());  // rounded once
  }
  const Tensor one = draw_floats({1}, 1);
  EXPECT_EQ(refusal(op, {one, one, one, one, one}, {0}),
            "BatchNormalization: training_mode: Lamina does not train, and normalises so what is constant only");
}

TEST(NormOps, DropoutInTrainingOfNothingIsTheOperand) {
  const Tensor x = draw_floats({2, 3}, 1), yes = Tensor::from(std::vector<std::uint8_t>{1}, {}).to(DType::boolean);
  const Tensor none = Tensor::zeros({}), half = Tensor::from(std::vector<float>{0.5f}, {});
  EXPECT_EQ(Expanded(Op("Dropout"), {x, none, yes}, {0}).computed(), 0);
  EXPECT_EQ(refusal(Op("Dropout"), {x, half, yes}, {0}), "Dropout: training is not what Lamina does");
  EXPECT_EQ(refusal(Op("Dropout"), {x, {}, yes}, {0}), "Dropout: training is not what Lamina does");
}

TEST(NormOps, GroupsAndInstances) {
  const Tensor x = draw_floats({2, 6, 3, 4}, 1), scale = draw_floats({6}, 2), bias = draw_floats({6}, 3);
  const auto expected = [&](std::int64_t groups) {
    auto values = by_line(x, 2 * groups, 72 / groups, 1, [](std::vector<double>& line) { centre(line, 1e-5); });
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = values[i] * doubles(scale)[i / 12 % 6] + doubles(bias)[i / 12 % 6];
    return values;
  };
  for (const std::set<int>& unknown : {std::set<int>{0}, std::set<int>{0, 1}, std::set<int>{0, 1, 2}}) {
    const Expanded group(Op("GroupNormalization", {{"num_groups", std::int64_t{3}}}), {x, scale, bias}, unknown);
    expect_close(group.run(), x.shape(), expected(3), tolerance, "group");
    const Expanded instance(Op("InstanceNormalization"), {x, scale, bias}, unknown);
    expect_close(instance.run(), x.shape(), expected(6), tolerance, "instance");
  }
  EXPECT_EQ(refusal(Op("GroupNormalization", {{"num_groups", std::int64_t{4}}}), {x, scale, bias}),
            "GroupNormalization: expected groups that divide 6 channels");
}

TEST(NormOps, LayersFromAnyAxisWithAnyScale) {
  const Tensor x = draw_floats({2, 3, 4, 5}, 1);
  for (const int axis : {-1, 1, 2}) {
    const std::int64_t outer = axis == 1 ? 2 : axis == 2 ? 6 : 24, length = 120 / outer;
    const Shape row(x.shape().extents().subspan(static_cast<std::size_t>(axis < 0 ? 3 : axis)));
    for (const bool narrow : {false, true}) {  // a scale that broadcasts along the row
      const Tensor scale = draw_floats(narrow ? Shape{5} : row, 2), bias = draw_floats(narrow ? Shape{1} : row, 3);
      for (const bool centred : {false, true}) {
        auto expected = by_line(x, outer, length, 1, [&](std::vector<double>& line) { centre(line, 0.1, centred); });
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] *= doubles(scale)[i % static_cast<std::size_t>(scale.numel())];
          if (centred) expected[i] += doubles(bias)[i % static_cast<std::size_t>(bias.numel())];
        }
        const Attributes attributes = {{"axis", std::int64_t{axis}}, {"epsilon", 0.1}};
        std::vector<Tensor> operands = {x, scale};
        if (centred) operands.push_back(bias);
        const Expanded expanded(Op(centred ? "LayerNormalization" : "RMSNormalization", attributes), operands, {0});
        expect_close(expanded.run(), x.shape(), expected, tolerance, to_string(attributes));
      }
    }
  }
  const Tensor tall = draw_floats({7, 1, 1, 1}, 2);
  EXPECT_EQ(refusal(Op("RMSNormalization"), {draw_floats({1, 3, 4, 5}, 1), tall}),
            "RMSNormalization: the scale or the bias does not broadcast to [1, 3, 4, 5]");
}

/// ONNX Runtime's: the norm of a sum, which is its output 3.
TEST(NormOps, SumsAreNormalised) {
  const Tensor x = draw_floats({2, 3, 8}, 1), skip = draw_floats({3, 8}, 2), gamma = draw_floats({8}, 3);
  const Tensor beta = draw_floats({8}, 4), bias = draw_floats({8}, 5);
  const Attributes last = {{"output", std::int64_t{3}}};
  for (const bool biased : {false, true}) {
    Tensor sum = evaluate(Op("Add"), {x, skip});
    if (biased) sum = evaluate(Op("Add"), {sum, bias});
    const Tensor more = biased ? bias : Tensor();
    const auto check = [&](const std::string& op, const std::vector<Tensor>& operands, const Tensor& norm) {
      expect_close(evaluate(Op(op), operands), {2, 3, 8}, doubles(norm), 1e-5, op);
      expect_close(evaluate(Op(op, last), operands), {2, 3, 8}, doubles(sum), 1e-6, op + "'s sum");
    };
    check("SkipLayerNormalization", {x, skip, gamma, beta, more},
          evaluate(Op("LayerNormalization"), {sum, gamma, beta}));
    check("SkipSimplifiedLayerNormalization", {x, skip, gamma, more}, evaluate(Op("RMSNormalization"), {sum, gamma}));
  }
}

TEST(NormOps, LocalResponseOfOddAndEvenSizes) {
  const Tensor x = draw_floats({1, 6, 2, 2}, 1);
  for (const std::int64_t size : {1, 3, 4, 5, 6}) {
    const auto expected = by_line(x, 1, 6, 4, [&](std::vector<double>& line) {
      const std::vector<double> from = line;
      for (std::int64_t c = 0; c < 6; ++c) {
        double sum = 0;  // as ONNX has it: c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)
        for (std::int64_t n = std::max<std::int64_t>(0, c - (size - 1) / 2);
             n <= std::min<std::int64_t>(5, c + size / 2); ++n)
          sum += from[static_cast<std::size_t>(n)] * from[static_cast<std::size_t>(n)];
        line[static_cast<std::size_t>(c)] /= std::pow(2 + 0.3 / static_cast<double>(size) * sum, 0.75);
      }
    });
    const Attributes attributes = {{"size", size}, {"alpha", 0.3}, {"bias", 2.0}};
    expect_close(evaluate(Op("LRN", attributes), {x}), x.shape(), expected, tolerance, to_string(attributes));
  }
}

TEST(NormOps, SoftmaxOverAnAxisOrAllFromIt) {
  const Tensor x = draw_floats({2, 3, 4}, 1);
  const auto softmax = [](std::vector<double>& line) {
    double sum = 0;
    for (const double value : line) sum += std::exp(value);
    for (double& value : line) value = std::exp(value) / sum;
  };
  const auto attributes = [](std::int64_t axis, bool flatten) {
    return Attributes{{"axis", axis}, {"flatten", std::int64_t{flatten ? 1 : 0}}};
  };
  expect_close(evaluate(Op("Softmax"), {x}), x.shape(), by_line(x, 6, 4, 1, softmax), tolerance, "last");
  expect_close(evaluate(Op("Softmax", attributes(1, false)), {x}), x.shape(), by_line(x, 2, 3, 4, softmax), tolerance,
               "axis 1");
  expect_close(evaluate(Op("Softmax", attributes(1, true)), {x}), x.shape(), by_line(x, 2, 12, 1, softmax), tolerance,
               "from 1");
  expect_close(evaluate(Op("Softmax", {{"flatten", std::int64_t{1}}}), {x}), x.shape(), by_line(x, 2, 12, 1, softmax),
               tolerance, "from 1 by default");
  expect_close(evaluate(Op("LogSoftmax", attributes(0, false)), {x}), x.shape(),
               by_line(x, 1, 2, 12,
                       [&](auto& line) {
                         softmax(line);
                         for (double& value : line) value = std::log(value);
                       }),
               tolerance, "log");
}

TEST(NormOps, HardmaxIsOneForTheFirstOfTheLargest) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor lines = Tensor::from(std::vector<float>{1, 3, 3, 2,  //
                                                       nan, inf, nan, 5, -inf, -inf, -inf, -inf},
                                    {3, 4});
  expect_equal(evaluate(Op("Hardmax"), {lines}), {0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, "the first of equals, NaN");
  const Tensor x = draw_floats({2, 3, 4}, 1);
  const auto hardmax = [](std::vector<double>& line) {
    const auto largest = std::ranges::max_element(line) - line.begin();
    std::ranges::fill(line, 0);
    line[static_cast<std::size_t>(largest)] = 1;
  };
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor from = x.to(dtype);
    expect_close(evaluate(Op("Hardmax", {{"axis", std::int64_t{1}}}), {from}), x.shape(),
                 by_line(from.to(DType::f32), 2, 3, 4, hardmax), 0, "axis 1");
  }
  expect_close(evaluate(Op("Hardmax", {{"flatten", std::int64_t{1}}}), {x}), x.shape(), by_line(x, 2, 12, 1, hardmax),
               0, "from 1 by default");
  EXPECT_EQ(evaluate(Op("Hardmax"), {Tensor({2, 0})}).numel(), 0);
}

TEST(NormOps, LpNormOfNothingIsNothing) {
  const Tensor x = Tensor::from(std::vector<float>{3, 4, 0, 0}, {2, 2});
  expect_close(evaluate(Op("LpNormalization"), {x}), x.shape(), {0.6, 0.8, 0, 0}, 1e-6, "2");
  expect_close(evaluate(Op("LpNormalization", {{"p", std::int64_t{1}}, {"axis", std::int64_t{0}}}), {x}), x.shape(),
               {1, 1, 0, 0}, 1e-6, "1");
}

TEST(NormOps, HalfPrecisionComesBackAsIt) {
  const Tensor x = draw_floats({2, 3, 4}, 1, DType::f16), one = draw_floats({3}, 2, DType::f16);
  EXPECT_EQ(evaluate(Op("Softmax"), {x}).dtype(), DType::f16);
  EXPECT_EQ(
      evaluate(Op("BatchNormalization"), {x, one, one, one, Tensor::from(std::vector<float>{1, 1, 1}, {3})}).dtype(),
      DType::f16);
  EXPECT_EQ(evaluate(Op("InstanceNormalization"), {x, one, one}).dtype(), DType::f16);
}

}  // namespace
}  // namespace lamina::test::norm_test
