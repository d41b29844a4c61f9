// What is done to channels: by the norm before it, by what is joined, by the layer before a move; and slices of them.

#include <cmath>

#include "compile/fused.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/conv2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"

namespace lamina::test::channels_test {
namespace {

constexpr std::int64_t images = 2;

Value convolved(Graph& g, Value x, int in, int out, int kernel = 1) {
  Conv2d conv({.in = in, .out = out, .kernel = kernel, .padding = kernel / 2});
  conv.set_weight(random_tensor({out, in, kernel, kernel}, 11));
  conv.set_bias(random_tensor({out}, 12));
  return g.add(next_name(), std::move(conv), x);
}

int count_copies(const Graph& graph) {
  const std::string summary = graph.plan_summary({.batch = images, .threads = 1});
  int count = 0;
  for (std::size_t at = summary.find("copies"); at != std::string::npos; at = summary.find("copies", at + 1)) ++count;
  return count;
}

/// As PyTorch's exporters write a group norm, with these factors and summands.
Value group_norm(Graph& g, Value x, const Shape& image, std::int64_t groups, const Tensor& scale, const Tensor& shift) {
  const Value rows = reshaped(g, x, {images, groups, -1});
  const std::vector<float> ones(static_cast<std::size_t>(groups), 1.0f), zeros(static_cast<std::size_t>(groups));
  const Value normal =
      op(g, "InstanceNormalization",
         {rows, constant(g, Tensor::from(ones, {groups})), constant(g, Tensor::from(zeros, {groups}))});
  const Value back = reshaped(g, normal, {images, image[1], image[2], image[3]});
  const Value scaled = op(g, "Mul", {back, constant(g, scale.view({image[1], 1, 1}))});
  return op(g, "Add", {scaled, constant(g, shift.view({image[1], 1, 1}))});
}

TEST(Channels, AGroupNormIsOneStepInTheLayoutAtHand) {
  Graph g;
  const Shape image = {images, 12, 6, 5};
  const Value x = g.input("x", {batch, 3, 6, 5});
  const Value y = group_norm(g, convolved(g, x, 3, 12, 3), image, 4, random_tensor({12}, 1), random_tensor({12}, 2));
  g.output(convolved(g, op(g, "Mul", {y, op(g, "Sigmoid", {y})}), 12, 5, 3));
  EXPECT_EQ(fused(g).size(), 3u);
  EXPECT_EQ(g.plan_summary({.batch = images, .threads = 1}).find("conversion from f32 nhwc to f32 nchw"),
            g.plan_summary({.batch = images, .threads = 1}).rfind("conversion from f32 nhwc to f32 nchw"));
  expect_same_unfused(g, images, {random_tensor({images, 3, 6, 5}, 3)});
}

/// (1e30 n) 1e30 is more than a factor can be: it stays apart. 1e-18 and 1e18 are one factor, which is 1.
TEST(Channels, FactorsOfANormAreMultipliedIfTheyAreHeld) {
  const Shape image = {images, 2, 2, 2};
  const auto steps = [&](float first, float second) {
    Graph g;
    const Value x = g.input("x", {batch, 2, 2, 2});
    const Tensor scale = Tensor::from(std::vector{first, 1.0f}, {2}), zero = Tensor::zeros({2});
    const Value y = group_norm(g, x, image, 1, scale, zero);
    g.output(op(g, "Mul", {y, constant(g, Tensor::from(std::vector{second, 1.0f}, {2, 1, 1}))}));
    Plan together = g.compile({.batch = images, .threads = 1});
    Plan apart = g.compile({.batch = images, .threads = 1, .fuse = false});
    const Tensor in = random_tensor({images, 2, 2, 2}, 4);
    const Tensor a = together.run({&in, 1})[0].clone(), b = apart.run({&in, 1})[0].clone();
    for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
      const float want = b.values<float>()[i];
      EXPECT_EQ(std::isinf(a.values<float>()[i]), std::isinf(want));
      if (std::isinf(want)) continue;
      EXPECT_NEAR(a.values<float>()[i], want, 1e-5f * (1 + std::abs(want)));
    }
    return fused(g).size();
  };
  EXPECT_EQ(steps(1e30f, 1e30f), 2u);
  EXPECT_EQ(steps(1e-18f, 1e18f), 1u);
}

TEST(Channels, ANormOfRowsIsTheLinearLayers) {
  Graph g;
  const Value x = g.input("x", {batch, 7, 6});
  const Value rows = reshaped(g, multiplied(g, x, 6, 5, 1), {-1, 5});
  std::vector<Value> operands = {rows};
  for (unsigned seed = 2; seed < 6; ++seed) {
    Tensor numbers = random_tensor({5}, seed);
    for (float& value : numbers.values<float>()) value = std::abs(value) + 0.1f;
    operands.push_back(constant(g, numbers));
  }
  const Value normal = reshaped(g, op(g, "BatchNormalization", operands), {images, 7, 5});
  g.output(op(g, "HardSwish", {normal}));
  int steps = 0;
  for (const std::string& step : fused(g)) steps += !step.starts_with("reshape");
  EXPECT_EQ(steps, 1);
  expect_same_unfused(g, images, {random_tensor({images, 7, 6}, 3)});
}

/// A norm and a function behind a concatenation, factors of channels, and what cannot be: another reads a part.
TEST(Channels, WhatFollowsAConcatenationIsDoneToWhatIsJoined) {
  for (const bool other_reader : {false, true}) {
    Graph g;
    const Value x = g.input("x", {batch, 4, 5, 5});
    const Value part = convolved(g, x, 4, 3);
    const Value joined = g.add("joined", Concat(1), {part, convolved(g, x, 4, 5, 3)});
    const Value normal = g.add("norm", BatchNorm2d({.channels = 8}), joined);
    const Value active = g.add("active", ReLU(), normal);
    const Value scaled = op(g, "Mul", {constant(g, random_tensor({8, 1, 1}, 7)), active});
    g.output(convolved(g, scaled, 8, 2));
    if (other_reader) g.output(convolved(g, part, 3, 2));
    randomize(g);
    for (const Graph::Node& node : g.nodes()) {
      if (node.name == "norm")
        node.module->set_parameter("running_var", Tensor::from(std::vector<float>(8, 2.0f), {8}));
    }
    const std::vector<std::string> steps = fused(g);
    EXPECT_EQ(steps.size(), other_reader ? 6u : 4u);
    expect_same_unfused(g, images, {random_tensor({images, 4, 5, 5}, 3)});
  }
}

TEST(Channels, SlicesOfThemAreReadWhereTheyLie) {
  Graph g;
  const Value x = g.input("x", {batch, 4, 6, 6});
  const Value wide = convolved(g, x, 4, 32, 3);
  std::vector<Value> parts;
  for (const std::int64_t first : {0, 16}) {
    parts.push_back(op(g, "Slice", {wide, integers(g, {first}), integers(g, {first + 16}), integers(g, {1})}));
  }
  const Value second = convolved(g, parts[1], 16, 16, 3);
  g.output(convolved(g, g.add("sum", Add(), {second, convolved(g, parts[0], 16, 16)}), 16, 3));
  randomize(g);
  EXPECT_EQ(count_copies(g), 0);
  expect_same_unfused(g, images, {random_tensor({images, 4, 6, 6}, 3)});
}

/// ConvNeXt's as EdgeNeXt has it: the factor in front of the move.
TEST(Channels, FactorsInFrontOfAMoveAreTheLayers) {
  Graph g;
  const Value x = g.input("x", {batch, 4, 6, 6});
  const Value first = convolved(g, x, 4, 8);
  const Value rows = transposed(g, first, {0, 2, 3, 1});
  const Value hidden = op(g, "Relu", {multiplied(g, rows, 8, 16, 1)});
  const Value scaled = op(g, "Mul", {constant(g, random_tensor({8}, 5)), multiplied(g, hidden, 16, 8, 2)});
  g.output(op(g, "Add", {first, transposed(g, scaled, {0, 3, 1, 2})}));
  randomize(g);
  int steps = 0;
  for (const std::string& step : fused(g)) steps += !step.starts_with("move");
  EXPECT_EQ(steps, 3);
  expect_same_unfused(g, images, {random_tensor({images, 4, 6, 6}, 3)});
}

/// A global response norm, w x n + b + x with the factors n of an image's channels, and x itself: factors of the
/// convolution's, which has the rest of it in its bias.
TEST(Channels, AGlobalResponseNormIsFactorsOfTheConvolutionBehindIt) {
  for (const int kernel : {1, 3}) {
    Graph g;
    const Value x = g.input("x", {batch, 4, 6, 6});
    const Value map = convolved(g, x, 4, 32, 3);
    const Value norm = op(g, "ReduceL2", {map, integers(g, {2, 3})});
    const Value mean =
        op(g, "Add",
           {op(g, "ReduceMean", {norm, integers(g, {1})}), constant(g, Tensor::from(std::vector{1e-6f}, Shape{}))});
    const Value product = op(g, "Mul", {map, op(g, "Div", {norm, mean})});
    const Value scaled = op(g, "Mul", {constant(g, random_tensor({1, 32, 1, 1}, 5)), product});
    const Value y = op(g, "Add", {map, op(g, "Add", {constant(g, random_tensor({1, 32, 1, 1}, 6)), scaled})});
    g.output(convolved(g, y, 32, 8, kernel));
    randomize(g);
    const std::vector<std::string> steps = fused(g);
    // Padding is of zeros, and not of b: a window of 3 sees it, and the rest of it is a step.
    EXPECT_EQ(steps.size(), kernel == 3 ? 5u : 4u);
    // On Hopper in 16 bits the roots and their norm are one, also where another step multiplies by them.
    const bool has_gates = !kernels<SqueezeExciteProblem>(DeviceType::cuda).empty();
    EXPECT_TRUE(!has_gates || fused(g, h200(), Precision::fp16).size() == (kernel == 3 ? 4u : 3u));
    expect_same_unfused(g, images, {random_tensor({images, 4, 6, 6}, 3)});
  }
}

/// As exporters write a norm of rows for which there is no op: x over its mean, its root mean square, its deviation.
TEST(Channels, StepsOfANormAreOne) {
  const auto number = [](Graph& g, float of) { return constant(g, Tensor::from(std::vector{of}, Shape{})); };
  const auto mean = [](Graph& g, Value x) { return op(g, "ReduceMean", {x, integers(g, {-1})}); };
  for (const std::string how : {"mean", "root", "reciprocal", "centred", "length", "other rows", "read"}) {
    Graph g;
    const Value x = op(g, "Softplus", {g.input("x", {batch, 7, 24})});
    const Value d = how == "centred" ? op(g, "Sub", {x, mean(g, x)}) : x;
    const Value of = how == "mean" ? d : op(g, "Pow", {d, number(g, 2)});
    const Value row = how == "other rows" ? op(g, "ReduceMean", {of, integers(g, {1})}) : mean(g, of);
    const Value sum = how == "length" ? op(g, "Clip", {op(g, "ReduceL2", {d, integers(g, {-1})}), number(g, 1e-3f)})
                                      : op(g, "Add", {row, number(g, 1e-3f)});
    const Value divisor = how == "mean" || how == "length" ? sum : op(g, "Sqrt", {sum});
    const Value y =
        how == "reciprocal" ? op(g, "Mul", {d, op(g, "Reciprocal", {divisor})}) : op(g, "Div", {d, divisor});
    g.output(op(g, "Mul", {y, constant(g, random_tensor({24}, 5))}));
    if (how == "read") g.output(sum);
    EXPECT_EQ(fused(g).size() == 2, how != "other rows" && how != "read") << how;
    expect_same_unfused(g, images, {random_tensor({images, 7, 24}, 3)});
  }
}

/// 1e18 x + 1e-18 and a weight of 1e-18, in double precision; 1e30 times 1e30 is no weight.
TEST(Channels, KnownFactorsInFrontOfAConvolutionAreItsWeights) {
  const auto made = [](float factor, float weight) {
    Graph g;
    const Value x = g.input("x", {batch, 1, 2, 2});
    const Value scaled = op(g, "Mul", {x, constant(g, Tensor::from(std::vector{factor}, {1, 1, 1}))});
    const Value shifted = op(g, "Add", {scaled, constant(g, Tensor::from(std::vector{1e-18f}, {1, 1, 1}))});
    Conv2d conv({.in = 1, .out = 1, .kernel = 1, .bias = false});
    conv.set_weight(Tensor::from(std::vector{weight}, {1, 1, 1, 1}));
    g.output(g.add("conv", std::move(conv), shifted));
    return g;
  };
  const Graph hard = made(1e18f, 1e-18f), large = made(1e30f, 1e30f);
  EXPECT_EQ(fused(hard).size(), 1u);
  EXPECT_EQ(fused(large).size(), 2u);
  Plan plan = hard.compile({.batch = images, .threads = 1});
  const Tensor in = random_tensor({images, 1, 2, 2}, 3);
  const Tensor out = plan.run({&in, 1})[0].clone();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(out.values<float>()[i], in.values<float>()[i]);
}

/// Also past a concatenation; 1e30 times 1e30 is no weight.
TEST(Channels, ANumberBehindAProductIsItsWeights) {
  const auto made = [](float factor, float weight, bool joined) {
    Graph g;
    const Value x = g.input("x", {batch, 2, 3, 3});
    const auto conv = [&](Value of, const char* name) {
      Conv2d pixels({.in = 2, .out = 2, .kernel = 1, .bias = false});
      pixels.set_weight(Tensor::from(std::vector{weight, 0.0f, 0.0f, weight}, {2, 2, 1, 1}));
      return g.add(name, std::move(pixels), of);
    };
    Value y = conv(x, "a");
    if (joined) y = g.add("joined", Concat(1), {y, conv(x, "b")});
    g.output(op(g, "Mul", {y, constant(g, Tensor::from(std::vector{factor}, {1}))}));
    return g;
  };
  for (const bool joined : {false, true}) {
    const Graph hard = made(1e18f, 1e-18f, joined), large = made(1e30f, 1e30f, joined);
    CompileOptions options = {.batch = images, .threads = 1};
    detail::settle_options(hard, options);
    const auto functions = [&](const Graph& g) {
      std::size_t steps = 0;
      for (const auto& operation : program_before("formats", g, options).operations) {
        const auto* module = dynamic_cast<const Conv2d*>(operation.module.get());
        if (module != nullptr) steps += module->problem({{Shape{images, 2, 3, 3}}}).epilogue.chain.size();
      }
      return steps;
    };
    EXPECT_EQ(functions(hard), 0u);
    EXPECT_EQ(functions(large), joined ? 2u : 1u);
    Plan plan = hard.compile(options);
    const Tensor in = random_tensor({images, 2, 3, 3}, 3), out = plan.run({&in, 1})[0].clone();
    for (std::size_t i = 0; i < 18; ++i) EXPECT_FLOAT_EQ(out.values<float>()[i], in.values<float>()[i]);
  }
}

/// As networks without norms have them. Not if something else reads them, if f16 would hold larger numbers, or if the
/// product is no weight.
TEST(Channels, ANumberBehindAFunctionIsTheWeightsOfTheNext) {
  struct Case {
    float factor, weight;
    bool other_reader;
    std::size_t functions;
  };
  for (const Case& c :
       {Case{1.7f, 1, false, 1}, Case{1.7f, 1, true, 2}, Case{0.5f, 1, false, 2}, Case{2, 3e38f, false, 2}}) {
    Graph g;
    const Value active = op(g, "Sigmoid", {convolved(g, g.input("x", {batch, 3, 4, 5}), 3, 2)});
    const Value scaled = op(g, "Mul", {active, constant(g, Tensor::from(std::vector{c.factor}, Shape{}))});
    for (const char* name : {"a", "b"}) {
      Conv2d pixels({.in = 2, .out = 2, .kernel = 1, .bias = false});
      pixels.set_weight(Tensor::from(std::vector{c.weight, 0.5f, 0.25f, 2.0f}, {2, 2, 1, 1}));
      g.output(g.add(name, std::move(pixels), scaled));
    }
    if (c.other_reader) g.output(op(g, "Neg", {scaled}));
    CompileOptions options = {.batch = images, .threads = 1};
    detail::settle_options(g, options);
    const auto program = program_before("formats", g, options);
    const auto* first = dynamic_cast<const Conv2d*>(program.operations[0].module.get());
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->problem({{Shape{images, 3, 4, 5}}}).epilogue.chain.size(), c.functions) << c.factor;
    if (c.weight == 1) expect_same_unfused(g, images, {random_tensor({images, 3, 4, 5}, 3)});
  }
}

}  // namespace
}  // namespace lamina::test::channels_test
