#include <map>

#include "support/windows_reference.h"

namespace lamina::test::product_test {
namespace {

constexpr double tolerance = 2e-5;

/// An einsum by its letters, each of one digit's extent: every combination of them.
std::vector<double> summed(const std::vector<std::string>& operands, const std::string& output,
                           const std::map<char, std::int64_t>& extents, const std::vector<Tensor>& values) {
  std::string letters = output;
  for (const auto& [letter, extent] : extents) {
    if (letters.find(letter) == std::string::npos) letters += letter;
  }
  const auto of = [&](const std::string& text, const std::function<std::int64_t(char)>& f) {
    Numbers numbers;
    for (const char letter : text) numbers.push_back(f(letter));
    return numbers;
  };
  const auto extent = [&](char letter) { return extents.at(letter); };
  std::vector<double> result(static_cast<std::size_t>(shape_of(of(output, extent)).numel()));
  std::vector<std::vector<double>> numbers;
  for (const Tensor& value : values) numbers.push_back(doubles(value));
  each(of(letters, extent), [&](const Numbers& at) {
    const auto coordinate = [&](char letter) { return at[letters.find(letter)]; };
    double product = 1;
    for (std::size_t i = 0; i < values.size(); ++i)
      product *= numbers[i][offset(of(operands[i], extent), of(operands[i], coordinate))];
    result[offset(of(output, extent), of(output, coordinate))] += product;
  });
  return result;
}

Tensor drawn_for(const std::string& letters, const std::map<char, std::int64_t>& extents, unsigned seed) {
  Numbers shape;
  for (const char letter : letters) shape.push_back(extents.at(letter));
  return draw_floats(shape_of(shape), seed);
}

TEST(ProductOps, EinsumIsTheSumOfAllProducts) {
  const std::map<char, std::int64_t> extents = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 1}, {'i', 3}, {'j', 2}};
  const std::vector<std::pair<std::vector<std::string>, std::string>> equations = {{{"abc"}, "cab"},
                                                                                   {{"abc"}, "b"},
                                                                                   {{"ii"}, "i"},
                                                                                   {{"ii"}, ""},
                                                                                   {{"aiib"}, "ba"},
                                                                                   {{"ab", "bc"}, "ac"},
                                                                                   {{"ab", "cb"}, "ca"},
                                                                                   {{"ba", "bc"}, "ac"},
                                                                                   {{"abc", "acd"}, "abd"},
                                                                                   {{"abc", "adc"}, "abd"},
                                                                                   {{"bac", "dac"}, "abd"},
                                                                                   {{"a", "b"}, "ab"},
                                                                                   {{"ab", "ab"}, "ab"},
                                                                                   {{"ab", "ab"}, ""},
                                                                                   {{"abcd", "cb"}, "da"},
                                                                                   {{"aeb", "eb"}, "ea"},
                                                                                   {{"ab", "bc", "cd"}, "ad"},
                                                                                   {{"abc", "dbi", "cj"}, "jaid"},
                                                                                   {{"abd", "cd"}, "ab"}};
  for (const auto& [operands, output] : equations) {
    std::map<char, std::int64_t> used;
    std::vector<Tensor> values;
    std::string equation;
    for (const std::string& operand : operands) {
      for (const char letter : operand) used[letter] = extents.at(letter);
      equation += (equation.empty() ? "" : ", ") + operand;
      values.push_back(drawn_for(operand, extents, static_cast<unsigned>(values.size())));
    }
    equation += "->" + output;
    Numbers shape;
    for (const char letter : output) shape.push_back(extents.at(letter));
    for (const std::set<int>& unknown : {std::set<int>{0}, std::set<int>{0, 1, 2}}) {
      const Expanded expanded(Op("Einsum", {{"equation", equation}}), values, unknown);
      expect_close(expanded.run(), shape_of(shape), summed(operands, output, used, values), tolerance, equation);
    }
  }
}

TEST(ProductOps, EinsumOfDimensionsWithoutLetters) {
  const Tensor a = draw_floats({2, 1, 3, 4}, 1), b = draw_floats({5, 4, 3}, 2);
  const std::map<char, std::int64_t> extents = {{'x', 2}, {'y', 5}, {'i', 3}, {'j', 4}, {'k', 3}};
  const auto expected = summed({"xij", "yjk"}, "xyik", extents, {a, b});
  expect_close(evaluate(Op("Einsum", {{"equation", std::string("...ij,...jk->...ik")}}), {a, b}), {2, 5, 3, 3},
               expected, tolerance, "explicit");
  expect_close(evaluate(Op("Einsum", {{"equation", std::string("...ij,...jk")}}), {a, b}), {2, 5, 3, 3}, expected,
               tolerance, "implicit");
  const auto said = [&](const std::string& equation) {
    return refusal(Op("Einsum", {{"equation", equation}}), {a, b});
  };
  EXPECT_EQ(said("ij->i"), "Einsum: its equation is for 1 operands, got 2");
  EXPECT_EQ(said("abc,...->a"), "Einsum: \"abc\" is not for an operand [2, 1, 3, 4]");
  EXPECT_EQ(said("abcd,aef->a"), "Einsum: one letter stands for extents of 2 and 5");
  EXPECT_EQ(said("abcd,efg->z"), "Einsum: its output is not of its operands");
  EXPECT_EQ(said("a1cd,efg->a"), "Einsum: cannot read the equation at \"1cd\"");
}

TEST(ProductOps, GemmWithEverySetting) {
  for (unsigned i = 0; i < 48; ++i) {
    const bool turn_a = i % 2 == 1, turn_b = i / 2 % 2 == 1, known = i / 4 % 2 == 0;
    const std::vector<Shape> summands = {{}, {4}, {1, 4}, {3, 1}, {3, 4}, {1}};
    const Tensor a = draw_floats(turn_a ? Shape{5, 3} : Shape{3, 5}, i),
                 b = draw_floats(turn_b ? Shape{4, 5} : Shape{5, 4}, i + 1);
    const Tensor c = draw_floats(summands[i / 8], i + 2);
    const auto as = doubles(a), bs = doubles(b), cs = doubles(c);
    std::vector<double> expected;
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t column = 0; column < 4; ++column) {
        const bool tall = c.shape().rank() == 2 && c.shape()[0] == 3, wide = c.shape().rank() > 0 && c.shape()[-1] == 4;
        double sum = 0.5 * cs[(tall ? row * (wide ? 4 : 1) : 0) + (wide ? column : 0)];
        for (std::size_t k = 0; k < 5; ++k)
          sum += 2 * as[turn_a ? k * 3 + row : row * 5 + k] * bs[turn_b ? column * 5 + k : k * 4 + column];
        expected.push_back(sum);
      }
    }
    const Attributes attributes = {
        {"alpha", 2.0}, {"beta", 0.5}, {"transA", std::int64_t{turn_a}}, {"transB", std::int64_t{turn_b}}};
    const Expanded expanded(Op("Gemm", attributes), {a, b, c}, known ? std::set<int>{0} : std::set<int>{0, 1, 2});
    expect_close(expanded.run(), {3, 4}, expected, tolerance, to_string(attributes) + c.shape().to_string());
    if (known && !turn_a && i / 8 < 3) {
      EXPECT_EQ(expanded.computed(), 1) << "a fully connected layer with a bias";
    }
  }
}

TEST(ProductOps, MatMulOfAnyRanks) {
  struct Case {
    Shape a, b, to;
    std::string letters_a, letters_b, output;
  };
  const std::map<char, std::int64_t> all = {{'x', 2}, {'y', 3}, {'m', 4}, {'k', 5}, {'n', 6}};
  for (const Case& c : {Case{{4, 5}, {5, 6}, {4, 6}, "mk", "kn", "mn"}, Case{{5}, {5, 6}, {6}, "k", "kn", "n"},
                        Case{{4, 5}, {5}, {4}, "mk", "k", "m"}, Case{{5}, {5}, {}, "k", "k", ""},
                        Case{{2, 4, 5}, {5, 6}, {2, 4, 6}, "xmk", "kn", "xmn"},
                        Case{{2, 3, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}, "xymk", "ykn", "xymn"},
                        Case{{4, 5}, {3, 5, 6}, {3, 4, 6}, "mk", "ykn", "ymn"},
                        Case{{5}, {3, 5, 6}, {3, 6}, "k", "ykn", "yn"}, Case{{3, 4, 5}, {5}, {3, 4}, "ymk", "k", "ym"},
                        Case{{2, 1, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}, "xmk", "ykn", "xymn"}}) {
    const Tensor a = draw_floats(c.a, 1), b = draw_floats(c.b, 2);
    std::map<char, std::int64_t> used;
    for (const char letter : c.letters_a + c.letters_b) used[letter] = all.at(letter);
    const auto expected = summed({c.letters_a, c.letters_b}, c.output, used, {a, b});
    for (const std::set<int>& unknown : {std::set<int>{0}, std::set<int>{0, 1}})
      expect_close(Expanded(Op("MatMul"), {a, b}, unknown).run(), c.to, expected, tolerance,
                   c.letters_a + ',' + c.letters_b);
  }
  const Tensor whole = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4}, {2, 2});
  expect_equal(evaluate(Op("MatMul"), {whole, whole}), {7, 10, 15, 22}, "whole numbers");
  EXPECT_EQ(refusal(Op("MatMul"), {whole, draw_floats({2, 2}, 1)}),
            "MatMul: expected operands of one type, got i64 and f32");
  EXPECT_EQ(refusal(Op("MatMul"), {draw_floats({2, 3}, 1), draw_floats({2, 3}, 1)}),
            "MatMul: cannot multiply [2, 3] by a matrix of 2 rows");
}

TEST(ProductOps, AttentionLooksAtWhatItMay) {
  // One head, one query, scores of 0: the mean of the values that are seen.
  const Tensor q = Tensor::zeros({1, 1, 2, 2}), k = Tensor::zeros({1, 1, 2, 2});
  const Tensor v = Tensor::from(std::vector<float>{1, 3}, {1, 1, 2, 1}), past_k = Tensor::zeros({1, 1, 1, 2});
  const Tensor past_v = Tensor::from(std::vector<float>{8}, {1, 1, 1, 1});
  const Attributes causal = {{"is_causal", std::int64_t{1}}};
  expect_close(evaluate(Op("Attention"), {q, k, v}), {1, 1, 2, 1}, {2, 2}, 1e-6, "all");
  expect_close(evaluate(Op("Attention", causal), {q, k, v}), {1, 1, 2, 1}, {1, 2}, 1e-6, "those before");
  expect_close(evaluate(Op("Attention", causal), {q, k, v, {}, past_k, past_v}), {1, 1, 2, 1}, {4.5, 4}, 1e-6,
               "and the past");
  const Tensor mask = Tensor::from(std::vector<std::uint8_t>{0, 1, 1, 0}, {2, 2}).to(DType::boolean);
  expect_close(evaluate(Op("Attention"), {q, k, v, mask}), {1, 1, 2, 1}, {3, 1}, 1e-6, "the mask");
  const Tensor one = Tensor::from(std::vector<std::int64_t>{1}, {1});
  expect_close(evaluate(Op("Attention"), {q, k, v, {}, {}, {}, one}), {1, 1, 2, 1}, {1, 1}, 1e-6, "the length");
  expect_equal(evaluate(Op("Attention", {{"output", std::int64_t{2}}}), {q, k, v, {}, past_k, past_v}), {8, 1, 3},
               "present");
  EXPECT_EQ(refusal(Op("Attention", {{"q_num_heads", std::int64_t{3}}}),
                    {draw_floats({1, 2, 4}, 1), draw_floats({1, 2, 4}, 1), draw_floats({1, 2, 4}, 1)}),
            "Attention: cannot make 3 heads of [1, 2, 4]");
}

/// Scores of 0 and 2, of two heads that share a key: as they are, capped, with the summands, and their shares.
TEST(ProductOps, AttentionHasScoresOfItsOwn) {
  const Tensor q = Tensor::from(std::vector<float>{1, 1}, {1, 2, 1, 1}),
               k = Tensor::from(std::vector<float>{0, 2}, {1, 1, 2, 1});
  const Tensor v = Tensor::from(std::vector<float>{1, 3}, {1, 1, 2, 1}),
               mask = Tensor::from(std::vector<float>{0, 5}, {1, 2});
  const double capped = 0.5 * std::tanh(4), share = 1 / (1 + std::exp(capped + 5)), free = 1 / (1 + std::exp(2.0));
  const auto scores = [&](std::int64_t mode, double cap, std::int64_t output) {
    return evaluate(Op("Attention", {{"softcap", cap}, {"qk_matmul_output_mode", mode}, {"output", output}}),
                    {q, k, v, mask});
  };
  expect_close(scores(0, 0, 3), {1, 2, 1, 2}, {0, 2, 0, 2}, 1e-6, "products");
  expect_close(scores(1, 0.5, 3), {1, 2, 1, 2}, {0, capped, 0, capped}, 1e-6, "capped");
  expect_close(scores(2, 0.5, 3), {1, 2, 1, 2}, {0, capped + 5, 0, capped + 5}, 1e-6, "with the mask");
  expect_close(scores(3, 0.5, 3), {1, 2, 1, 2}, {share, 1 - share, share, 1 - share}, 1e-6, "shares");
  expect_close(scores(0, 0.5, 0), {1, 2, 1, 1}, {share + 3 * (1 - share), share + 3 * (1 - share)}, 1e-6, "the result");
  const Op causal("Attention", {{"softcap", 1e6}, {"is_causal", std::int64_t{1}}});
  expect_close(evaluate(causal, {q, k, v}), {1, 2, 1, 1}, {1, 1}, 1e-5, "the first alone");
  const Tensor past = Tensor::zeros({1, 1, 1, 1});
  expect_close(evaluate(causal, {q, k, v, {}, past, past}), {1, 2, 1, 1}, {0.5, 0.5}, 1e-5, "and the past");
  expect_close(evaluate(Op("Attention", {{"softcap", 1e6}}), {q, k, v}), {1, 2, 1, 1},
               {free + 3 * (1 - free), free + 3 * (1 - free)}, 1e-5, "no cap");
}

/// Whatever is turned, the product of what it was.
TEST(ProductOps, FusedMatMulTurnsItsOperands) {
  const Tensor a = draw_floats({2, 3, 4, 5}, 1), b = draw_floats({2, 3, 5, 6}, 2);
  const std::vector<double> expected = doubles(evaluate(Op("MatMul"), {a, b}));
  const auto turned = [](const Tensor& x, const Numbers& perm) {
    return evaluate(Op("Transpose", {{"perm", perm}}), {x});
  };
  for (int ways = 0; ways < 16; ++ways) {
    Attributes attributes = {{"alpha", 0.5}};
    Tensor operands[] = {a, b};
    for (int i = 0; i < 2; ++i) {
      const bool last = (ways >> i & 1) != 0, batch = (ways >> (2 + i) & 1) != 0;
      attributes.emplace_back(i == 0 ? "transA" : "transB", std::int64_t{last});
      attributes.emplace_back(i == 0 ? "transBatchA" : "transBatchB", std::int64_t{batch});
      if (last) operands[i] = turned(operands[i], {0, 1, 3, 2});
      if (batch) operands[i] = turned(operands[i], {2, 0, 1, 3});
    }
    std::vector<Truth> truth;
    for (const double value : expected) truth.push_back({value / 2, 1e-5});
    for (const std::set<int>& unknown : {std::set<int>{0}, std::set<int>{0, 1}})
      expect_near(Expanded(Op("FusedMatMul", attributes), {operands[0], operands[1]}, unknown).run(), truth,
                  detail::concat("ways ", ways));
  }
}

/// ONNX Runtime's attention is ONNX's with biases before, and masks of another form.
TEST(ProductOps, MultiHeadAttentionIsAttentionOfSums) {
  const Tensor q = draw_floats({2, 3, 8}, 1), k = draw_floats({2, 4, 8}, 2), v = draw_floats({2, 4, 12}, 3);
  const Tensor bias = draw_floats({28}, 4), scores = draw_floats({1, 2, 3, 4}, 5);
  const Attributes own = {{"num_heads", std::int64_t{2}}, {"mask_filter_value", -1e30}};
  const Attributes onnx = {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{2}}};
  const auto check = [&](const Tensor& biases, const Tensor& padding, const Tensor& summand, const Tensor& mask,
                         const std::string& what) {
    std::vector<Tensor> parts = {q, k, v};
    for (std::size_t i = 0, begin = 0; biases.defined() && i < 3; begin += i < 2 ? 8 : 12, ++i) {
      const std::span<const float> some = biases.values<float>().subspan(begin, i < 2 ? 8 : 12);
      const Tensor own_bias = Tensor::from(std::vector<float>(some.begin(), some.end()), {std::ssize(some)});
      parts[i] = evaluate(Op("Add"), {parts[i], own_bias});
    }
    const Tensor expected = evaluate(Op("Attention", onnx), {parts[0], parts[1], parts[2], mask});
    expect_close(evaluate(Op("MultiHeadAttention", own), {q, k, v, biases, padding, summand}), {2, 3, 12},
                 doubles(expected), 1e-5, what);
  };
  const auto whole = [](const std::vector<std::int32_t>& values, const Shape& shape) {
    return Tensor::from(values, shape);
  };
  const Tensor seen = whole({1, 1, 0, 0, 1, 1, 1, 1}, {2, 1, 1, 4}).to(DType::boolean);
  check({}, {}, {}, {}, "alone");
  check(bias, {}, {}, {}, "biases");
  check({}, {}, scores, scores, "a summand");
  check({}, whole({2, 4}, {2}), {}, seen, "lengths");
  check(bias, whole({1, 1, 0, 0, 1, 1, 1, 1}, {2, 4}), {}, seen, "a mask");
  EXPECT_EQ(refusal(Op("MultiHeadAttention", own), {q, k, v, {}, whole({1, 1, 1, 1, 1}, {5})}),
            "MultiHeadAttention: expected a mask [2], [2, 4] or [N, L, S], got [5]");
  EXPECT_EQ(refusal(Op("MultiHeadAttention", own), {draw_floats({2, 3, 2, 3, 2}, 1), k, v}),
            "MultiHeadAttention: expected queries [N, L, H * D], got [2, 3, 2, 3, 2]");
}

}  // namespace
}  // namespace lamina::test::product_test
