#include "lamina/layers/conv2d.h"

#include <algorithm>
#include <utility>

#include "lamina/graph/graph.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/pool2d.h"
#include "lamina/module/turned.h"
#include "support/contract.h"
#include "support/file_test.h"
#include "support/problem_data.h"

namespace lamina::test::conv2d_test {
namespace {

TEST(Conv2d, RefusesOptionsThatMakeNoConvolution) {
  expect_error([] { Conv2d({.in = 0, .out = 1}); }, {"channels", "0 in"});
  expect_error([] { Conv2d({.in = 1, .out = 1, .kernel = 0}); }, {"kernel", "0x0"});
  expect_error([] { Conv2d({.in = 1, .out = 1, .stride = {1, 0}}); }, {"stride", "1x0"});
  expect_error([] { Conv2d({.in = 1, .out = 1, .padding = -1}); }, {"padding", "-1x-1"});
  expect_error([] { Conv2d({.in = 1, .out = 1, .dilation = 0}); }, {"dilation"});
  expect_error([] { Conv2d({.in = 4, .out = 6, .groups = 3}); }, {"groups", "4 input", "got 3"});
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  Conv2d conv({.in = 3, .out = 2, .kernel = 5});
  const auto shape = [&](const Shape& s) { (void)conv.output_shape({&s, 1}); };
  expect_error([&] { shape({1, 4, 8, 8}); }, {"expected 3 input channels, got 4", "[1, 4, 8, 8]"});
  expect_error([&] { shape({1, 3, 8}); }, {"[N, C, H, W]", "[1, 3, 8]"});
  expect_error([&] { shape({1, 3, 4, 8}); }, {"kernel of height 5", "padded input of height 4"});
  expect_error([&] { shape({1, 3, 8, 0}); }, {"1x1 or more"});
  expect_error([&] { shape({1, 3, 8, std::int64_t{1} << 31}); }, {"too large", "2147483648"});
  const Shape small{1, 1, 8, 8};
  expect_error(
      [&] {
        (void)Conv2d({.in = 1, .out = 1, .padding = 2'000'000'000}).output_shape({&small, 1});
      },
      {"padded input", "too large"});
  expect_error([&] { conv.set_weight(Tensor::zeros({2, 3, 5, 4})); }, {"[2, 3, 5, 5]", "[2, 3, 5, 4]"});
  expect_error([&] { conv.set_bias(Tensor::zeros({2}, DType::f16)); }, {"bias", "f16"});
  expect_error([&] { (void)conv(Tensor::zeros({1, 3, 8, 8})); }, {"weight", "never set"});
  Conv2d bare({.in = 1, .out = 1, .bias = false});
  expect_error([&] { bare.set_bias(Tensor::zeros({1})); }, {"no parameter \"bias\""});
  expect_error([&] { (void)bare(Tensor()); }, {"f32", "undefined"});
}

TEST(Conv2d, RunsAlone) {
  Conv2d conv({.in = 3, .out = 4, .kernel = {3, 2}, .stride = 2, .padding = 1});
  const ConvGeometry g = conv.geometry({2, 3, 9, 8});
  const ConvOperands operands(g, Values::mixed);
  conv.set_weight(Tensor::from(operands.weight, {4, 3, 3, 2}));
  conv.set_bias(Tensor::from(operands.bias, {4}));
  const Tensor y = conv(Tensor::from(operands.input, {2, 3, 9, 8}));
  EXPECT_EQ(y.shape(), (Shape{2, 4, 5, 5}));
  const auto truth = reference_conv2d(g, operands.input.data(), operands.weight.data(), operands.bias.data());
  expect_contract(g, Precision::fp32, truth, y.values<float>());
}

/// As exporters write a network over one dimension: [N, C, L, 1].
TEST(Conv2d, AColumnIsTheSameProblemAsARow) {
  const ConvOperands operands(Conv2d({.in = 4, .out = 6, .kernel = {5, 1}, .groups = 2}).geometry({2, 4, 70, 1}),
                              Values::mixed);
  const auto made = [&](bool column) {
    const auto side = [column](int along, int across) {
      return column ? Size2d(along, across) : Size2d(across, along);
    };
    Conv2d conv({.in = 4,
                 .out = 6,
                 .kernel = side(5, 1),
                 .stride = side(2, 3),
                 .padding = side(3, 0),
                 .dilation = side(2, 1),
                 .groups = 2});
    conv.set_weight(Tensor::from(operands.weight, column ? Shape{6, 2, 5, 1} : Shape{6, 2, 1, 5}));
    conv.set_bias(Tensor::from(operands.bias, {6}));
    Graph g;
    const Value x = g.input("x", column ? Shape{batch, 4, 70, 1} : Shape{batch, 4, 1, 70});
    const Value y = g.add("c", conv, x), z = g.add("r", ReLU(), y);
    g.output(g.add("p", MaxPool2d({.kernel = side(2, 1), .stride = side(2, 1)}), z));
    const std::vector<Shape> shapes = {column ? Shape{2, 4, 70, 1} : Shape{2, 4, 1, 70}};
    return std::pair(conv.problem(shapes), std::move(g));
  };
  const auto [column, columns] = made(true);
  const auto [row, rows] = made(false);
  EXPECT_EQ(detail::turned(column).geometry, detail::turned(row).geometry);
  EXPECT_EQ(detail::turned(column).weight.shape(), row.weight.shape());
  for (const bool fuse : {false, true}) {
    const CompileOptions options = {.batch = 2, .threads = 1, .fuse = fuse};
    Plan of_columns = columns.compile(options), of_rows = rows.compile(options);
    const Tensor y = of_columns.run(Tensor::from(operands.input, {2, 4, 70, 1}));
    const Tensor z = of_rows.run(Tensor::from(operands.input, {2, 4, 1, 70}));
    EXPECT_EQ(y.shape(), (Shape{2, 6, 17, 1}));
    EXPECT_TRUE(std::ranges::equal(y.values<float>(), z.values<float>()));
  }
}

/// What passes merge they merge as the layers say it, whichever of them are columns to kernels.
TEST(Conv2d, ColumnsAreMergedAndPairedAsTheyAre) {
  const auto conv = [](Size2d kernel, Size2d padding, int groups, unsigned seed) {
    Conv2d made({.in = 8, .out = 8, .kernel = kernel, .padding = padding, .groups = groups});
    made.set_weight(draw_floats({8, 8 / groups, kernel.height, kernel.width}, seed));
    made.set_bias(draw_floats({8}, seed + 1));
    return made;
  };
  Graph g;
  const Value x = g.input("x", {batch, 8, 40, 3});
  const Value column = g.add("narrow", conv({3, 3}, {1, 0}, 1, 1), x);  // [N, 8, 40, 1]
  const Value deep = g.add("deep", conv({5, 1}, {2, 0}, 8, 3), column);
  const Value a = g.add("a", conv({3, 3}, 1, 1, 5), deep), b = g.add("b", conv(1, 0, 1, 7), deep);
  const Value c = g.add("c", conv({3, 1}, {1, 0}, 1, 9), deep);
  const Value sum = g.add("sum2", Add(), {g.add("sum1", Add(), {a, b}), c});
  g.output(g.add("out", conv({3, 1}, {1, 0}, 8, 11), g.add("one", conv(1, 0, 1, 13), sum)));
  const Tensor input = draw_floats({2, 8, 40, 3}, 20);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Plan plain = g.compile({.batch = 2, .threads = 2, .fuse = false});
    Plan fused = g.compile({.batch = 2, .precision = precision, .threads = 2});
    const Tensor expected = plain.run(input), y = fused.run(input);
    double error = 0, all = 0;
    for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
      const double truth = expected.values<float>()[i], difference = y.values<float>()[i] - truth;
      error += difference * difference, all += truth * truth;
    }
    EXPECT_LT(std::sqrt(error / all), precision == Precision::fp32 ? 1e-5 : 3e-2) << name(precision);
  }
}

TEST(ReLU, KeepsNan) {
  const Tensor x = Tensor::from(std::vector<float>{-1, 0, 2, NAN, -INFINITY, INFINITY}, {6});
  const Tensor y = ReLU()(x);
  EXPECT_EQ(y.values<float>()[0], 0);
  EXPECT_EQ(y.values<float>()[2], 2);
  EXPECT_TRUE(std::isnan(y.values<float>()[3]));
  EXPECT_EQ(y.values<float>()[4], 0);
  EXPECT_EQ(y.values<float>()[5], INFINITY);
  EXPECT_EQ(x.values<float>()[0], -1);
}

TEST(Conv2d, AKernelThatIsGoneIsTheOneThatTookItIn) {
  EXPECT_EQ(conv_algorithm(DeviceType::cpu, "direct"), "direct");
  EXPECT_EQ(conv_algorithm(DeviceType::cpu, "fastest"), "");
  if (conv_algorithms(DeviceType::cuda).empty()) return;  // a build without CUDA
  for (const std::string_view once : {"implicit_gemm", "pair"}) {
    EXPECT_NE(conv_algorithm(DeviceType::cuda, once), "") << once;
  }
}

}  // namespace
}  // namespace lamina::test::conv2d_test
