
#include "lamina/graph/graph.h"
#include "support/file_test.h"
#include "support/layer_cases.h"
#include "support/plans/structure.h"

namespace lamina::test::layers_test {
namespace {

TEST(Layers, AgreeWithTheReference) {
  const auto cases = layer_cases();
  ASSERT_GT(cases.size(), 300u);
  for (const LayerCase& c : cases) {
    const Tensor y = c.module->forward(c.inputs);
    EXPECT_EQ(mismatch(c, y.values<float>()), "") << c.name;
  }
}

TEST(Layers, GiveTheSameInAPlanOfThreeThreads) {
  for (const LayerCase& c : layer_cases()) {
    Graph g;
    std::vector<Value> values;
    for (const Tensor& input : c.inputs) values.push_back(g.input(std::to_string(values.size()), input.shape()));
    g.output(g.add("node", c.module, values));
    Plan plan = g.compile({.threads = 3});
    const Tensor y = plan.run(c.inputs)[0];
    EXPECT_EQ(y.shape(), c.module->forward(c.inputs).shape()) << c.name;
    EXPECT_EQ(mismatch(c, y.values<float>()), "") << c.name;
  }
}

/// What lies behind a convolution or a linear layer goes into its parameters in double precision, which is rounded
/// once.
TEST(Layers, FoldedParametersAreRoundedOnce) {
  const auto drawn = [](const Shape& shape, std::uint32_t seed) {
    Tensor result(shape);
    draw(result, seed, 2, 0.3);
    return result;
  };
  Conv2d conv({.in = 3, .out = 64, .kernel = 3});
  conv.set_weight(drawn({64, 3, 3, 3}, 1)), conv.set_bias(drawn({64}, 2));
  BatchNorm2d norm({.channels = 64});
  std::uint32_t seed = 3;
  for (const auto& p : norm.parameters()) norm.set_parameter(p.name, drawn({64}, seed++));
  const auto [scale, shift] = norm.coefficients();
  const auto folded = conv.absorb(norm, {}).module;
  ASSERT_NE(folded, nullptr);
  const auto got = [&](int i) { return folded->parameters()[static_cast<std::size_t>(i)].value.values<float>(); };
  for (std::size_t i = 0; i < got(0).size(); ++i) {
    const double exact = static_cast<double>(conv.weight().values<float>()[i]) * scale[i / 27];
    ASSERT_EQ(got(0)[i], static_cast<float>(exact)) << "weight " << i;
  }
  for (std::size_t c = 0; c < 64; ++c) {
    const double exact = static_cast<double>(conv.bias().values<float>()[c]) * scale[c] + shift[c];
    ASSERT_EQ(got(1)[c], static_cast<float>(exact)) << "bias " << c;
  }
}

TEST(Layers, ParametersOfOtherNamesAreRefusedWithThoseThatThereAre) {
  Conv2d conv({.in = 3, .out = 4, .kernel = 3});
  expect_error(
      [&] {
        conv.set_parameter("weights", Tensor({4, 3, 3, 3}));
      },
      {"conv2d: there is no parameter \"weights\"; nearest: \"weight\""});
}

TEST(Layers, FollowPyTorchOnOutputSizes) {
  const auto extent = [](int in, int kernel, int stride, int padding, bool ceil_mode) {
    const Shape shape = {1, 1, in, in};
    return MaxPool2d({.kernel = kernel, .stride = stride, .padding = padding, .ceil_mode = ceil_mode})
        .output_shape({&shape, 1})[2];
  };
  EXPECT_EQ(extent(55, 3, 2, 0, false), 27);
  EXPECT_EQ(extent(13, 3, 2, 0, true), 6);
  EXPECT_EQ(extent(14, 3, 2, 0, false), 6);
  EXPECT_EQ(extent(14, 3, 2, 0, true), 7);
  EXPECT_EQ(extent(4, 2, 5, 1, true), 1);  // a second window would begin in the padding at the end
  EXPECT_EQ(extent(5, 2, 5, 1, true), 2);
  EXPECT_EQ(extent(2, 3, 2, 0, true), 1);  // smaller than its kernel: rounding up still gives one window
}

TEST(Layers, KeepNan) {
  Tensor x = drawn({1, 1, 5, 5}, 1);
  x.values<float>()[12] = NAN;
  const Tensor largest = MaxPool2d({.kernel = 3, .stride = 1})(x);
  for (const float y : largest.values<float>()) EXPECT_TRUE(std::isnan(y));  // every window holds the centre
  x = drawn({1, 1, 3, 6}, 2);
  x.values<float>()[0] = NAN;
  const Tensor some = MaxPool2d({.kernel = 3})(x);
  EXPECT_TRUE(std::isnan(some.values<float>()[0]));
  EXPECT_FALSE(std::isnan(some.values<float>()[1]));
  const Tensor infinite = Tensor::from(std::vector<float>(9, -INFINITY), {1, 1, 3, 3});
  EXPECT_EQ(MaxPool2d({.kernel = 3})(infinite).values<float>()[0], -INFINITY);

  const Tensor row = Tensor::from(std::vector<float>{1, NAN, 2}, {1, 3});
  const Tensor none = Softmax()(row);
  for (const float y : none.values<float>()) EXPECT_TRUE(std::isnan(y));
  const Tensor extreme = Tensor::from(std::vector<float>{1000, -INFINITY, 1000}, {1, 3});
  EXPECT_EQ(Softmax()(extreme).values<float>()[0], 0.5f);
  EXPECT_EQ(Softmax()(extreme).values<float>()[1], 0.0f);

  Linear linear({.in = 2, .out = 2, .bias = false});
  linear.set_weight(Tensor::from(std::vector<float>{-1, 0, 1, 0}, {2, 2}));
  Graph g;
  const Value in = g.input("input", {1, 2});
  g.output(g.add("relu", ReLU(), g.add("linear", std::move(linear), in)));
  Plan plan = g.compile();
  const Tensor y = plan.run(Tensor::from(std::vector<float>{3, 5}, {1, 2}));
  EXPECT_EQ(y.values<float>()[0], 0.0f);
  EXPECT_EQ(y.values<float>()[1], 3.0f);
  EXPECT_TRUE(std::isnan(plan.run(Tensor::from(std::vector<float>{NAN, 5}, {1, 2})).values<float>()[0]));
}

TEST(Layers, RefuseWhatDoesNotFit) {
  expect_error([] { MaxPool2d({.kernel = 0}); }, {"max_pool2d", "kernel", "0x0"});
  expect_error([] { MaxPool2d({.kernel = 3, .padding = 2}); }, {"half the kernel", "2x2"});
  expect_error([] { AvgPool2d({.kernel = 3, .stride = {1, 0}}); }, {"avg_pool2d", "stride", "1x0"});
  expect_error([] { AdaptiveAvgPool2d(Size2d(0, 3)); }, {"output", "0x3"});
  expect_error([] { Linear({.in = 0, .out = 3}); }, {"linear", "0 in"});
  expect_error([] { LocalResponseNorm({.size = 0}); }, {"size", "0"});
  expect_error([] { BatchNorm2d({.channels = 0}); }, {"channels", "0"});
  const auto shape = [](const Module& module, std::vector<Shape> inputs) { (void)module.output_shape(inputs); };
  expect_error([&] { shape(MaxPool2d({.kernel = 5}), {{1, 2, 4, 8}}); }, {"height 5", "height 4", "[1, 2, 4, 8]"});
  expect_error([&] { shape(MaxPool2d({.kernel = 2}), {{2, 4, 8}}); }, {"[N, C, H, W]", "[2, 4, 8]"});
  expect_error([&] { shape(Linear({.in = 3, .out = 1}), {{1, 4}}); }, {"expected 3 input features, got 4"});
  expect_error([&] { shape(BatchNorm2d({.channels = 3}), {{1, 4, 2, 2}}); }, {"expected 3 input channels, got 4"});
  expect_error([&] { shape(Add(), {{1, 4}, {3}}); }, {"broadcast", "[1, 4]", "[3]"});
  expect_error([&] { shape(Add(), {{1, 4}}); }, {"2 inputs, got 1"});
  expect_error([&] { shape(Concat(1), {{1, 4}, {2, 4}}); }, {"dimension 1", "[2, 4]"});
  expect_error([&] { shape(Concat(1), {{1, 4}, {1, 4, 1}}); }, {"dimension 1"});
  expect_error([&] { shape(Concat(0), {{batch, 4}, {batch, 4}}); }, {"batch"});
  expect_error([&] { shape(Softmax(2), {{1, 4}}); }, {"no dimension 2", "[1, 4]"});
  expect_error([] { (void)Linear({.in = 1, .out = 1})(Tensor::zeros({1, 1})); }, {"linear", "never set"});
  expect_error([] { (void)BatchNorm2d({.channels = 1})(Tensor::zeros({1, 1, 1, 1})); }, {"batch_norm2d", "never set"});
  Linear linear({.in = 2, .out = 1, .bias = false});
  expect_error([&] { linear.set_weight(Tensor::zeros({2, 1})); }, {"[1, 2]", "[2, 1]"});
  expect_error([&] { linear.set_bias(Tensor::zeros({1})); }, {"no parameter \"bias\""});
}

/// A window with an infinity in it divides by infinity; others see nothing of it.
TEST(LocalResponseNorm, AnInfinityMakesItsNeighboursZero) {
  constexpr std::int64_t pixels = 37;  // more than vectors hold, and a remainder
  for (const std::int64_t at : {std::int64_t{3}, pixels - 1}) {
    std::vector<float> values(4 * pixels, 1.0f);
    values[static_cast<std::size_t>(at)] = INFINITY;  // of channel 0
    const Tensor y = LocalResponseNorm({.size = 3})(Tensor::from(values, {1, 4, 1, pixels}));
    for (std::int64_t i = 0; i < 4 * pixels; ++i) {
      const float found = y.values<float>()[static_cast<std::size_t>(i)];
      if (i == at) {
        EXPECT_TRUE(std::isnan(found)) << i;
      } else if (i == pixels + at) {
        EXPECT_EQ(found, 0) << i;
      } else {
        EXPECT_NEAR(found, 1, 1e-3) << i;
      }
    }
  }
}

TEST(Scores, SoftmaxAndTopK) {
  const Tensor p = softmax(Tensor::from(std::vector<float>{0, 0, std::log(2.0f), 7, 7, 7}, {2, 3}));
  EXPECT_FLOAT_EQ(p.values<float>()[0], 0.25f);
  EXPECT_FLOAT_EQ(p.values<float>()[2], 0.5f);
  EXPECT_FLOAT_EQ(p.values<float>()[5], 1.0f / 3);
  const auto best = top_k(Tensor::from(std::vector<float>{1, NAN, 3, 3, -INFINITY}, {1, 5}), 4);
  ASSERT_EQ(best.size(), 4u);
  EXPECT_EQ(best[0].index, 2);
  EXPECT_EQ(best[1].index, 3);
  EXPECT_EQ(best[2].index, 0);
  EXPECT_EQ(best[3].index, 4);
  EXPECT_EQ(best[0].score, 3.0f);
  EXPECT_EQ(top_k(Tensor::zeros({3}), 10).size(), 3u);
  expect_error([] { (void)top_k(Tensor::zeros({2, 3}), 1); }, {"one image", "[2, 3]"});
  expect_error([] { (void)top_k(Tensor::zeros({3}, DType::f16), 1); }, {"f32", "f16"});
  expect_error([] { (void)softmax(Tensor()); }, {"undefined"});
}

}  // namespace
}  // namespace lamina::test::layers_test
