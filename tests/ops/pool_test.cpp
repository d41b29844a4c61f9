#include "support/windows_reference.h"

namespace lamina::test::pool_test {
namespace {

/// What a window's elements become; `padded`: how many taps are in the input or its padding.
using Fold = std::function<double(const std::vector<double>& seen, double padded)>;

std::vector<double> pooled(const WindowCase& c, const Tensor& x, const Fold& fold) {
  const auto xs = doubles(x);
  const Numbers planes = {x.shape()[0], x.shape()[1]};
  std::vector<double> result;
  each(with(planes, c.out), [&](const Numbers& at) {
    std::vector<double> seen;
    double padded = 0;
    each_tap(c, {at.begin() + 2, at.end()}, [&](const Numbers&, const Numbers& place, bool inside) {
      if (inside) seen.push_back(xs[offset(with(planes, c.in), with({at[0], at[1]}, place))]);
      bool known = true;
      for (std::size_t d = 0; d < place.size(); ++d) known &= place[d] >= -c.begin[d] && place[d] < c.in[d] + c.end[d];
      padded += known ? 1 : 0;
    });
    result.push_back(fold(seen, padded));
  });
  return result;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

/// Draws cases of 1 to 3 dimensions in which every window sees an element.
void each_case(const std::string& op, const Attributes& more, const Fold& fold) {
  std::mt19937 random(3);
  for (unsigned i = 0; i < 90; ++i) {
    const WindowCase c = draw_windows(random, 1 + i % 3, 2, i % 2 == 0);
    const Tensor x = draw_floats(shape_of(with({2, 3}, c.in)), i);
    bool seen = true;
    (void)pooled(c, x, [&](const std::vector<double>& values, double) { return seen &= !values.empty(), 0; });
    if (!seen) continue;
    Attributes attributes = c.attributes();
    attributes.push_back({"ceil_mode", std::int64_t{c.ceil ? 1 : 0}});
    attributes.insert(attributes.end(), more.begin(), more.end());
    expect_close(Expanded(Op(op, attributes), {x}, {0}).run(), shape_of(with({2, 3}, c.out)), pooled(c, x, fold), 1e-5,
                 op + ' ' + to_string(attributes) + " of " + x.shape().to_string());
  }
}

TEST(PoolOps, LargestOfEveryWindow) {
  each_case("MaxPool", {}, [](const std::vector<double>& seen, double) { return *std::ranges::max_element(seen); });
}

TEST(PoolOps, MeansWithAndWithoutThePadding) {
  each_case("AveragePool", {},
            [](const std::vector<double>& seen, double) { return sum_of(seen) / static_cast<double>(seen.size()); });
  each_case("AveragePool", {{"count_include_pad", std::int64_t{1}}},
            [](const std::vector<double>& seen, double padded) { return sum_of(seen) / padded; });
}

TEST(PoolOps, Norms) {
  for (const std::int64_t p : {1, 2, 3}) {
    each_case("LpPool", {{"p", p}}, [p](const std::vector<double>& seen, double) {
      double sum = 0;
      for (const double value : seen) sum += std::pow(std::abs(value), static_cast<double>(p));
      return std::pow(sum, 1.0 / static_cast<double>(p));
    });
  }
}

TEST(PoolOps, WhatTheLayerCanPadItPads) {
  const Tensor x = draw_floats({1, 2, 7, 7}, 1);
  const auto nodes = [&](const std::string& op, const Numbers& pads) {
    const Attributes attributes = {{"kernel_shape", Numbers{3, 3}}, {"strides", Numbers{2, 2}}, {"pads", pads}};
    return Expanded(Op(op, attributes), {x}, {0}).computed();
  };
  EXPECT_EQ(nodes("MaxPool", {1, 1, 1, 1}), 1);
  EXPECT_EQ(nodes("MaxPool", {0, 0, 1, 1}), 1);  // the end is not reached
  EXPECT_EQ(nodes("MaxPool", {2, 2, 2, 2}), 2);
  EXPECT_EQ(nodes("AveragePool", {1, 1, 1, 1}), 1);
  EXPECT_EQ(nodes("AveragePool", {0, 0, 2, 2}), 3);
}

TEST(PoolOps, AdaptiveWindowsAreThoseOfPyTorch) {
  for (const Numbers& in : {Numbers{7}, Numbers{12}, Numbers{5, 9}, Numbers{3, 7, 8}}) {
    for (const std::int64_t size : {1, 3, 4}) {
      const Numbers out(in.size(), size);
      const Tensor x = draw_floats(shape_of(with({2, 3}, in)), 1);
      const auto xs = doubles(x);
      std::vector<double> means, largest;
      each(with({2, 3}, out), [&](const Numbers& at) {
        Numbers extents, first;
        for (std::size_t d = 0; d < in.size(); ++d) {
          first.push_back(at[d + 2] * in[d] / size);
          extents.push_back(((at[d + 2] + 1) * in[d] + size - 1) / size - first[d]);
        }
        std::vector<double> seen;
        each(extents, [&](const Numbers& tap) {
          Numbers place = {at[0], at[1]};
          for (std::size_t d = 0; d < in.size(); ++d) place.push_back(first[d] + tap[d]);
          seen.push_back(xs[offset(with({2, 3}, in), place)]);
        });
        means.push_back(sum_of(seen) / static_cast<double>(seen.size()));
        largest.push_back(*std::ranges::max_element(seen));
      });
      const Attributes attributes = {{"output_size", out}};
      const Shape shape = shape_of(with({2, 3}, out));
      expect_close(evaluate(Op("AdaptiveAvgPool", attributes), {x}), shape, means, 1e-5, "means");
      expect_close(evaluate(Op("AdaptiveMaxPool", attributes), {x}), shape, largest, 0, "largest");
    }
  }
}

TEST(PoolOps, BytesStayBytes) {
  const Tensor x = Tensor::from(std::vector<std::uint8_t>{1, 255, 3, 4}, {1, 1, 2, 2});
  const Tensor y = evaluate(Op("MaxPool", {{"kernel_shape", Numbers{2, 1}}}), {x});
  EXPECT_EQ(y.dtype(), DType::u8);
  expect_equal(y, {3, 255}, "largest");
}

TEST(PoolOps, WhatDoesNotFitIsRefused) {
  const Tensor x = draw_floats({1, 2, 5, 5}, 1);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal(Op("MaxPool"), {x}), "MaxPool: expected a kernel of 2 dimensions, got 0");
  EXPECT_EQ(refusal(Op("MaxPool", {{"kernel_shape", Numbers{most, 1}}}), {x}),
            "MaxPool: cannot have a kernel of 9223372036854775807");
  EXPECT_EQ(refusal(Op("MaxPool", {{"kernel_shape", Numbers{2, 2}}, {"output", std::int64_t{1}}}), {x}),
            "MaxPool: its second output, Indices, is not supported");
  EXPECT_EQ(refusal(Op("AveragePool", {{"kernel_shape", Numbers{2, 2}}}),
                    {x.to(DType::f32).reinterpret({1, 2, 5, 5}, DType::i32)}),
            "AveragePool: expected an operand of floats, got i32");
  EXPECT_EQ(refusal(Op("AdaptiveAvgPool", {{"output_size", Numbers{0, most}}}), {x}),
            "AdaptiveAvgPool: cannot have an output_size of 0");
}

}  // namespace
}  // namespace lamina::test::pool_test
