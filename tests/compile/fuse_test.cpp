// Which nodes become part of others, and that nothing changes by it.

#include "compile/fused.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::test::fuse_test {
namespace {

Value constant(Graph& g, const std::string& name, Tensor value) {
  return g.add(name, Constant(std::move(value)), std::initializer_list<Value>{});
}
Value op(Graph& g, const std::string& name, const char* what, std::vector<Value> inputs) {
  return g.add(name, std::make_shared<Op>(what), inputs);
}

/// The same elements with and without fusion, within rounding.
void expect_same(const Graph& graph, const std::vector<Tensor>& inputs) {
  Plan together = graph.compile({.batch = 2, .threads = 1});
  Plan apart = graph.compile({.batch = 2, .threads = 1, .fuse = false});
  const Tensor x = together.run(inputs)[0], y = apart.run(inputs)[0];
  ASSERT_EQ(x.shape(), y.shape());
  for (std::size_t i = 0; i < x.values<float>().size(); ++i) {
    const float a = x.values<float>()[i], b = y.values<float>()[i];
    ASSERT_TRUE(std::abs(a - b) <= 1e-5f * (1 + std::abs(b)) || (std::isnan(a) && std::isnan(b)))
        << i << ": " << a << ", " << b;
  }
}

struct Idiom {
  const char* name;
  std::function<Value(Graph&, Value)> build;
};

TEST(Fuse, WhatExportersWriteIsOneFunction) {
  const Idiom idioms[] = {
      {"silu",
       [](Graph& g, Value x) {
         return op(g, "y", "Mul", {x, op(g, "s", "Sigmoid", {x})});
       }},
      {"silu",
       [](Graph& g, Value x) {
         return op(g, "y", "Mul", {op(g, "s", "Sigmoid", {x}), x});
       }},
      {"mish",
       [](Graph& g, Value x) {
         return op(g, "y", "Mul", {x, op(g, "t", "Tanh", {op(g, "s", "Softplus", {x})})});
       }},
      {"gelu",
       [](Graph& g, Value x) {
         const auto number = [&](const char* name, float v) {
           return constant(g, name, Tensor::from(std::vector{v}, Shape{}));
         };
         const Value scaled = op(g, "scaled", "Div", {x, number("root", 1.41421356f)});
         const Value sum = op(g, "sum", "Add", {number("one", 1), op(g, "erf", "Erf", {scaled})});
         return op(g, "y", "Mul", {number("half", 0.5f), op(g, "product", "Mul", {x, sum})});
       }},
  };
  for (const Idiom& idiom : idioms) {
    Graph g;
    g.output(idiom.build(g, g.input("x", {batch, 3, 4, 5})));
    const std::vector<std::string> operations = fused(g);
    ASSERT_EQ(operations.size(), 1u) << idiom.name;
    EXPECT_EQ(operations[0].substr(0, 4), idiom.name);
    expect_same(g, {random_tensor({2, 3, 4, 5}, 1)});
  }
}

TEST(Fuse, AChainStandsWhereItsLastOperandIsReady) {
  Graph g;
  const Value x = g.input("x", {batch, 3, 4, 5}), y = g.input("y", {batch, 3, 4, 5});
  const Value a = g.add("a", Sigmoid(), x);
  const Value b = op(g, "b", "Tanh", {g.add("c", Sigmoid(), y)});
  g.output(g.add("relu", ReLU(), g.add("sum", Add(), {a, b})));
  EXPECT_EQ(fused(g), (std::vector<std::string>{"sigmoid: ", "sigmoid: b, sum, relu"}));
  expect_same(g, {random_tensor({2, 3, 4, 5}, 1), random_tensor({2, 3, 4, 5}, 2)});
}

/// Squeeze-and-excite: the factors of the channels, whichever of the two is named first, are the convolution's to
/// multiply by, which takes in what follows it as before. What broadcasts otherwise is a product of its own.
TEST(Fuse, FactorsOfTheChannelsBelongToTheConvolutionThatFollows) {
  for (const bool first : {false, true}) {
    for (const Shape& factors : {Shape{batch, 20, 1, 1}, Shape{batch, 1, 6, 5}, Shape{1, 20, 1, 1}}) {
      SCOPED_TRACE(factors);
      Graph g;
      const Value x = g.input("x", {batch, 20, 6, 5}), s = g.input("s", factors);
      const Value residual = g.input("residual", {batch, 20, 6, 5});
      const Value product = op(g, "product", "Mul", first ? std::vector{s, x} : std::vector{x, s});
      const Value y = g.add("conv", Conv2d({.in = 20, .out = 20, .kernel = 1}), product);
      const Value normed = g.add("norm", BatchNorm2d({.channels = 20}), y);
      g.output(g.add("relu", ReLU(), g.add("sum", Add(), {normed, residual})));
      randomize(g);
      Tensor variance(Shape{20});
      for (float& value : variance.values<float>()) value = 2;
      g.find("norm")->module->set_parameter("running_var", variance);
      const bool one = factors == Shape{batch, 20, 1, 1};
      EXPECT_EQ(fused(g), one ? std::vector<std::string>{"conv2d: conv, norm, sum, relu"}
                              : std::vector<std::string>({"mul: ", "conv2d: norm, sum, relu"}));
      expect_same(g, {random_tensor({2, 20, 6, 5}, 1), random_tensor(factors.with_batch(2), 2),
                      random_tensor({2, 20, 6, 5}, 3)});
    }
  }
}

TEST(Fuse, WhatAnotherReadsStays) {
  Graph g;
  const Value x = g.input("x", {batch, 3, 4, 5});
  const Value a = g.add("a", Sigmoid(), x);
  const Value b = g.add("b", Sigmoid(), a);
  g.output(g.add("sum", Add(), {a, b}));  // a twice: by b, and by the sum
  g.output(a);
  EXPECT_EQ(fused(g), (std::vector<std::string>{"sigmoid: ", "sigmoid: sum"}));
  expect_same(g, {random_tensor({2, 3, 4, 5}, 1)});
}

/// A factor for each image and channel is computed once, not for every pixel.
TEST(Fuse, ABroadcastOperandIsComputedBefore) {
  Graph g;
  const Value x = g.input("x", {batch, 3, 4, 5}), s = g.input("s", {batch, 3, 1, 1});
  g.output(op(g, "y", "Mul", {x, g.add("sigmoid", Sigmoid(), s)}));
  EXPECT_EQ(fused(g), (std::vector<std::string>{"sigmoid: ", "mul: "}));
  expect_same(g, {random_tensor({2, 3, 4, 5}, 1), random_tensor({2, 3, 1, 1}, 2)});
}

TEST(Fuse, KnownFactorsBecomeParameters) {
  Graph g;
  const Value x = g.input("x", {batch, 3, 6, 5});
  Value y = g.add("conv", Conv2d({.in = 3, .out = 8, .kernel = 3, .bias = false}), x);
  randomize(g);
  y = op(g, "scaled", "Mul", {y, constant(g, "scale", random_tensor({1, 8, 1, 1}, 3))});
  y = op(g, "shifted", "Add", {constant(g, "shift", random_tensor({8, 1, 1}, 4)), y});
  y = op(g, "lowered", "Sub", {y, constant(g, "mean", random_tensor({1, 8, 1, 1}, 5))});
  g.output(y);
  EXPECT_EQ(fused(g), std::vector<std::string>{"conv2d: scaled, shifted, lowered"});
  expect_same(g, {random_tensor({2, 3, 6, 5}, 1)});
}

TEST(Fuse, ABiasAfterAProductIsTheLayers) {
  Graph g;
  const Value x = g.input("x", {batch, 7, 6});
  Value y = op(g, "product", "MatMul", {x, constant(g, "weight", random_tensor({6, 9}, 1))});
  y = op(g, "sum", "Add", {constant(g, "bias", random_tensor({9}, 2)), y});
  g.output(y);
  EXPECT_EQ(fused(g), std::vector<std::string>{"linear: sum"});
  expect_same(g, {random_tensor({2, 7, 6}, 3)});
}

/// Along the rows instead: no bias.
TEST(Fuse, AnotherShapeThanTheChannelsIsNoParameter) {
  Graph g;
  const Value x = g.input("x", {batch, 6, 6});
  Value y = op(g, "product", "MatMul", {x, constant(g, "weight", random_tensor({6, 6}, 1))});
  y = op(g, "sum", "Add", {y, constant(g, "bias", random_tensor({6, 1}, 2))});
  g.output(y);
  EXPECT_EQ(fused(g).size(), 2u);
  expect_same(g, {random_tensor({2, 6, 6}, 3)});
}

Value number(Graph& g, const std::string& name, float value) {
  return constant(g, name, Tensor::from(std::vector{value}, Shape{}));
}
Value transposed(Graph& g, const std::string& name, Value x, std::vector<std::int64_t> order) {
  return g.add(name, std::make_shared<Op>("Transpose", Attributes{{"perm", std::move(order)}}), {&x, 1});
}

TEST(Fuse, AttentionSpelledOutIsAttention) {
  for (const bool masked : {false, true}) {
    Graph g;
    const Value q = g.input("q", {batch, 2, 5, 8}), k = g.input("k", {batch, 7, 2, 8}),
                v = g.input("v", {batch, 2, 7, 4});
    const Value turned =
        op(g, "k scaled", "Mul", {transposed(g, "k turned", k, {0, 2, 3, 1}), number(g, "root", 0.5f)});
    Value scores = op(g, "scores", "MatMul", {op(g, "q scaled", "Mul", {q, number(g, "root 2", 0.7f)}), turned});
    if (masked) scores = op(g, "masked", "Add", {scores, constant(g, "mask", random_tensor({1, 2, 5, 7}, 4))});
    g.output(op(g, "y", "MatMul", {op(g, "weights", "Softmax", {scores}), v}));
    const std::vector<std::string> operations = fused(g);
    ASSERT_EQ(operations.size(), 2u);
    EXPECT_EQ(operations[0].substr(0, 4), "move");
    EXPECT_EQ(operations[1].substr(0, 9), "attention");
    expect_same(g, {random_tensor({2, 2, 5, 8}, 1), random_tensor({2, 7, 2, 8}, 2), random_tensor({2, 2, 7, 4}, 3)});
  }
}

TEST(Fuse, ScoresThatAreReadStay) {
  Graph g;
  const Value q = g.input("q", {batch, 2, 5, 8}), k = g.input("k", {batch, 2, 7, 8}),
              v = g.input("v", {batch, 2, 7, 4});
  const Value scores = op(g, "scores", "MatMul", {q, transposed(g, "k turned", k, {0, 1, 3, 2})});
  const Value weights = op(g, "weights", "Softmax", {scores});
  g.output(op(g, "y", "MatMul", {weights, v}));
  g.output(weights);
  EXPECT_EQ(fused(g).size(), 3u);  // the keys are turned as the product reads them
}

/// GELU in five nodes behind a layer: known at its last node only, and then the layer's.
TEST(Fuse, AnIdiomBecomesThePartOfALayer) {
  Graph g;
  const Value x = g.input("x", {batch, 20, 6});
  const Value y = op(g, "product", "MatMul", {x, constant(g, "weight", random_tensor({6, 9}, 1))});
  const Value erf = op(g, "erf", "Erf", {op(g, "scaled", "Div", {y, number(g, "root", 1.41421356f)})});
  const Value sum = op(g, "sum", "Add", {erf, number(g, "one", 1)});
  g.output(op(g, "half", "Mul", {op(g, "product 2", "Mul", {y, sum}), number(g, "0.5", 0.5f)}));
  EXPECT_EQ(fused(g).size(), 1u);
  expect_same(g, {random_tensor({2, 20, 6}, 3)});
}

/// The other GELU, whose cube is a product of the value by itself.
TEST(Fuse, TanhGeluBecomesThePartOfALayer) {
  Graph g;
  const Value x = g.input("x", {batch, 20, 6});
  const Value y = op(g, "product", "MatMul", {x, constant(g, "weight", random_tensor({6, 9}, 1))});
  const Value cube = op(g, "cube", "Mul", {y, op(g, "square", "Mul", {y, y})});
  const Value sum = op(g, "sum", "Add", {y, op(g, "small", "Mul", {number(g, "kappa", 0.044715f), cube})});
  const Value tanh = op(g, "tanh", "Tanh", {op(g, "scaled", "Mul", {number(g, "beta", 0.79788456f), sum})});
  const Value product = op(g, "product 2", "Mul", {y, op(g, "up", "Add", {number(g, "one", 1), tanh})});
  g.output(op(g, "half", "Mul", {number(g, "0.5", 0.5f), product}));
  EXPECT_EQ(fused(g).size(), 1u);
  expect_same(g, {random_tensor({2, 20, 6}, 3)});
}

/// A convolution, with what has the shape of its result added, and a function of the sum.
TEST(Fuse, AResidualIsAddedByTheConvolutionThatIsLast) {
  Graph g;
  const Value x = g.input("x", {batch, 16, 6, 6});
  const Value a = g.add("a", Conv2d({.in = 16, .out = 32, .kernel = 3, .padding = 1}), x);
  const Value b = g.add("b", Conv2d({.in = 16, .out = 32, .kernel = 1}), g.input("z", {batch, 16, 6, 6}));
  g.output(op(g, "y", "HardSwish", {g.add("sum", Add(), {a, b})}));
  randomize(g);
  EXPECT_EQ(fused(g), (std::vector<std::string>{"conv2d: ", "conv2d: sum, y"}));
  expect_same(g, {random_tensor({2, 16, 6, 6}, 1), random_tensor({2, 16, 6, 6}, 2)});
}

}  // namespace
}  // namespace lamina::test::fuse_test
