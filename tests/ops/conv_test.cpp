#include "support/windows_reference.h"

namespace lamina::test::conv_test {
namespace {

constexpr double tolerance = 2e-5;

struct Filters {
  std::int64_t in = 4, out = 6, groups = 1;
};

/// Conv by its definition.
std::vector<double> correlated(const WindowCase& c, const Filters& f, const Tensor& x, const Tensor& w,
                               const Tensor& b) {
  const auto xs = doubles(x), ws = doubles(w), bs = doubles(b);
  const std::int64_t per_group = f.in / f.groups, filters = f.out / f.groups;
  std::vector<double> result;
  each(with({x.shape()[0], f.out}, c.out), [&](const Numbers& at) {
    double sum = bs[static_cast<std::size_t>(at[1])];
    each_tap(c, {at.begin() + 2, at.end()}, [&](const Numbers& tap, const Numbers& place, bool inside) {
      for (std::int64_t i = 0; inside && i < per_group; ++i) {
        sum += xs[offset(with({x.shape()[0], f.in}, c.in), with({at[0], at[1] / filters * per_group + i}, place))] *
               ws[offset(with({f.out, per_group}, c.kernel), with({at[1], i}, tap))];
      }
    });
    result.push_back(sum);
  });
  return result;
}

TEST(ConvOps, OverOneToThreeDimensionsAsDefined) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 60; ++i) {
    const std::size_t count = 1 + i % 3;
    const WindowCase c = draw_windows(random, count, 3, false);
    const Filters f = {.groups = i % 2 == 0 ? 1 : 2};
    const Tensor x = draw_floats(shape_of(with({2, f.in}, c.in)), i), b = draw_floats({f.out}, i + 1);
    const Tensor w = draw_floats(shape_of(with({f.out, f.in / f.groups}, c.kernel)), i + 2);
    Attributes attributes = c.attributes();
    attributes.push_back({"group", f.groups});
    const Expanded expanded(Op("Conv", attributes), {x, w, b}, {0});
    expect_close(expanded.run(), shape_of(with({2, f.out}, c.out)), correlated(c, f, x, w, b), tolerance,
                 to_string(attributes) + " of " + x.shape().to_string());
  }
}

TEST(ConvOps, SymmetricPaddingIsTheLayersOwn) {
  const Tensor x = draw_floats({1, 4, 9, 9}, 1), w = draw_floats({4, 4, 3, 3}, 2);
  const auto nodes = [&](const Attributes& attributes) {
    return Expanded(Op("Conv", attributes), {x, w}, {0}).computed();
  };
  EXPECT_EQ(nodes({{"pads", Numbers{1, 1, 1, 1}}}), 1);
  EXPECT_EQ(nodes({{"auto_pad", std::string("SAME_UPPER")}}), 1);
  EXPECT_EQ(nodes({{"pads", Numbers{1, 1, 0, 0}}, {"strides", Numbers{3, 3}}}), 1);  // the end is not reached
  EXPECT_EQ(nodes({{"pads", Numbers{0, 0, 1, 1}}}), 2);
}

TEST(ConvOps, AutoPadKeepsTheExtentOverTheStride) {
  const Tensor x = draw_floats({1, 2, 7}, 1), w = draw_floats({2, 2, 4}, 2);
  for (const std::string how : {"SAME_UPPER", "SAME_LOWER"}) {
    const Attributes attributes = {{"auto_pad", how}, {"strides", Numbers{2}}, {"dilations", Numbers{2}}};
    // 4 outputs reach over 2 * 3 + 7 elements: 6 of padding.
    const WindowCase c = {
        .in = {7}, .kernel = {4}, .stride = {2}, .dilation = {2}, .begin = {3}, .end = {3}, .out = {4}};
    expect_close(evaluate(Op("Conv", attributes), {x, w}), {1, 2, 4},
                 correlated(c, {.in = 2, .out = 2}, x, w, Tensor::zeros({2})), tolerance, how);
  }
}

/// ConvTranspose by its definition: each element spreads its weights.
TEST(ConvOps, TransposedSpreadsEveryElement) {
  std::mt19937 random(2);
  const auto any = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (unsigned i = 0; i < 120; ++i) {
    const std::size_t count = 1 + i % 3;
    Numbers in, kernel, stride, dilation, begin, end, more, out;
    while (in.size() < count) {
      const std::int64_t n = any(1, 5), k = any(1, 4), s = any(1, 3), d = any(1, 2), b = any(0, 2), e = any(0, 2);
      const std::int64_t m = s > 1 ? any(0, s - 1) : 0, o = s * (n - 1) + m + d * (k - 1) + 1 - b - e;
      if (o < 1) continue;
      in.push_back(n), kernel.push_back(k), stride.push_back(s), dilation.push_back(d);
      begin.push_back(b), end.push_back(e), more.push_back(m), out.push_back(o);
    }
    const std::int64_t groups = i % 2 == 0 ? 1 : 2, channels = 4, filters = 3;
    const Tensor x = draw_floats(shape_of(with({2, channels}, in)), i), b = draw_floats({filters * groups}, i + 1);
    Tensor w = draw_floats(shape_of(with({channels, filters}, kernel)), i + 2);
    // Where a weight is not finite, only what meets it is not either.
    if (i % 4 == 3) w.values<float>()[0] = std::numeric_limits<float>::infinity();
    const auto xs = doubles(x), ws = doubles(w), bs = doubles(b);
    const Numbers to = with({2, filters * groups}, out);
    std::vector<double> expected(static_cast<std::size_t>(shape_of(to).numel()));
    each(to, [&](const Numbers& at) { expected[offset(to, at)] = bs[static_cast<std::size_t>(at[1])]; });
    each(with(with({2, channels, filters}, in), kernel), [&](const Numbers& at) {
      const Numbers place(at.begin() + 3, at.begin() + 3 + static_cast<std::ptrdiff_t>(count));
      const Numbers tap(at.begin() + 3 + static_cast<std::ptrdiff_t>(count), at.end());
      Numbers target = {at[0], at[1] / (channels / groups) * filters + at[2]};
      for (std::size_t d = 0; d < count; ++d) {
        target.push_back(place[d] * stride[d] + tap[d] * dilation[d] - begin[d]);
        if (target.back() < 0 || target.back() >= out[d]) return;
      }
      expected[offset(to, target)] += xs[offset(with({2, channels}, in), with({at[0], at[1]}, place))] *
                                      ws[offset(with({channels, filters}, kernel), with({at[1], at[2]}, tap))];
    });
    const Attributes attributes = {{"strides", stride},
                                   {"dilations", dilation},
                                   {"pads", with(begin, end)},
                                   {"output_padding", more},
                                   {"group", groups}};
    const std::string what = to_string(attributes) + " of " + x.shape().to_string() + " by " + w.shape().to_string();
    expect_close(Expanded(Op("ConvTranspose", attributes), {x, w, b}, {0}).run(), shape_of(to), expected, tolerance,
                 what);
  }
}

TEST(ConvOps, ColumnsAddUpWhereTheyFall) {
  const Tensor x = draw_floats({2, 12, 6}, 1);
  const auto xs = doubles(x);
  std::vector<double> expected(2 * 3 * 4 * 5);  // an image of 4 x 5, blocks of 2 x 2, 2 x 3 of them
  each({2, 3, 2, 2, 2, 3}, [&](const Numbers& at) {
    const std::int64_t row = at[4] * 2 + at[2] - 1, column = at[5] * 1 + at[3] * 2;
    if (row >= 0) expected[offset({2, 3, 4, 5}, {at[0], at[1], row, column})] += xs[offset({2, 3, 2, 2, 2, 3}, at)];
  });
  const Tensor image = Tensor::from(std::vector<std::int64_t>{4, 5}, {2}),
               block = Tensor::from(std::vector<std::int64_t>{2, 2}, {2});
  const Attributes attributes = {
      {"strides", Numbers{2, 1}}, {"dilations", Numbers{1, 2}}, {"pads", Numbers{1, 0, 0, 0}}};
  expect_close(Expanded(Op("Col2Im", attributes), {x, image, block}, {0}).run(), {2, 3, 4, 5}, expected, tolerance, "");
  EXPECT_EQ(refusal(Op("Col2Im"), {x, image, block}, {0}),
            "Col2Im: an operand [2, 12, 6] is not of [3, 4] blocks [2, 2]");
}

TEST(ConvOps, TransposedToAWantedShape) {
  const Tensor x = draw_floats({1, 2, 3, 3}, 1), w = draw_floats({2, 1, 3, 3}, 2);
  const auto shape = [&](Attributes attributes) {
    attributes.push_back({"strides", Numbers{3, 2}});
    return evaluate(Op("ConvTranspose", attributes), {x, w}).shape();
  };
  EXPECT_EQ(shape({{"output_shape", Numbers{10, 8}}}), (Shape{1, 1, 10, 8}));
  EXPECT_EQ(shape({{"output_shape", Numbers{1, 1, 7, 7}}}), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(shape({{"auto_pad", std::string("SAME_UPPER")}}), (Shape{1, 1, 9, 6}));
  EXPECT_EQ(shape({{"auto_pad", std::string("VALID")}}), (Shape{1, 1, 9, 7}));
}

TEST(ConvOps, WhatDoesNotFitIsRefused) {
  const Tensor x = draw_floats({1, 2, 5, 5}, 1), w = draw_floats({2, 2, 3, 3}, 2);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto said = [&](const Attributes& attributes) { return refusal(Op("Conv", attributes), {x, w}); };
  EXPECT_EQ(said({{"pads", Numbers{0, 0, most, most}}}), "Conv: cannot have pads of 9223372036854775807");
  EXPECT_EQ(said({{"pads", Numbers{-1, 0, 0, 0}}}), "Conv: cannot have pads of -1");
  EXPECT_EQ(said({{"pads", Numbers{1, 1}}}), "Conv: expected 4 numbers as pads, got 2");
  EXPECT_EQ(said({{"strides", Numbers{0, 1}}}), "Conv: cannot have strides of 0");
  EXPECT_EQ(said({{"dilations", Numbers{3, 1}}}),
            "Conv: a kernel of 7 is larger than the padded extent 5 (operand [1, 2, 5, 5])");
  EXPECT_EQ(said({{"kernel_shape", Numbers{2, 2}}}), "Conv: kernel_shape is not that of the weights");
  EXPECT_EQ(said({{"auto_pad", std::string("SAME")}}),
            "Conv: there is no auto_pad \"SAME\"; nearest: \"SAME_UPPER\", \"SAME_LOWER\"");
  EXPECT_EQ(said({{"group", std::int64_t{2}}}),
            "Conv: weights [2, 2, 3, 3] of 2 groups do not fit an operand [1, 2, 5, 5]");
  EXPECT_EQ(said({{"padding", std::int64_t{2}}}), "unknown attribute \"padding\"; nearest: \"pads\"");
  EXPECT_EQ(
      refusal(Op("Conv"), {x, w}, {0, 1}),
      "Conv: operand 2 must be known when the network is compiled, and depends on input \"input 1\"; give its value "
      "as CompileOptions::constants");
  EXPECT_EQ(refusal(Op("ConvTranspose", {{"strides", Numbers{most, 1}}}), {x, w}),
            "ConvTranspose: cannot have strides of 9223372036854775807");
  EXPECT_EQ(refusal(Op("ConvTranspose", {{"output_shape", Numbers{most, 1}}}), {x, w}),
            "ConvTranspose: cannot have an output_shape of 9223372036854775807");
}

}  // namespace
}  // namespace lamina::test::conv_test
