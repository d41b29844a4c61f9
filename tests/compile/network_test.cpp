// Graphs of ops: what is known when they are compiled, values of other types, fewer images than the batch.

#include <numeric>

#include "lamina/graph/graph.h"
#include "lamina/graph/model.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test::network_test {
namespace {

Tensor floats(const Shape& shape, float first = 0) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), first);
  return Tensor::from(values, shape);
}
Tensor longs(std::vector<std::int64_t> values, const Shape& shape) { return Tensor::from(values, shape); }
std::vector<float> values_of(const Tensor& tensor) {
  const Tensor host = tensor.to(Device::cpu());
  const auto values = host.values<float>();
  return {values.begin(), values.end()};
}

/// x [N, 2, 3] -> its shape -> a reshape to [N, 6] by shape arithmetic, as exporters write a flatten.
Graph flattened_by_arithmetic() {
  Graph g;
  const Value x = g.input("x", {batch, 2, 3});
  const Value zero = g.add("zero", std::make_shared<Constant>(longs({0}, {1})), {});
  const Value minus_one = g.add("minus_one", std::make_shared<Constant>(longs({-1}, {1})), {});
  const Value shape = g.add("shape", Op("Shape"), x);
  const Value n = g.add("n", Op("Gather"), {shape, zero});
  const Value wanted = g.add("wanted", Op("Concat", {{"axis", std::int64_t{0}}}), {n, minus_one});
  g.output(g.add("flat", Op("Reshape"), {x, wanted}));
  return g;
}

TEST(Network, FoldsShapeArithmeticForEveryBatch) {
  const Graph g = flattened_by_arithmetic();
  for (const Device device : devices_here()) {
    for (const std::int64_t n : {1, 3}) {
      Plan plan = g.compile({.device = device, .batch = n});
      EXPECT_EQ(plan.output_shapes()[0], (Shape{n, 6}));
      EXPECT_EQ(values_of(plan.run(floats({n, 2, 3}))), values_of(floats({n, 6})));
    }
  }
}

TEST(Network, ShapesAreKnownWithTheBatch) {
  EXPECT_EQ(flattened_by_arithmetic().shapes(5).back(), (Shape{5, 6}));
  EXPECT_NE(flattened_by_arithmetic().summary(5).find("[5, 6]"), std::string::npos);
}

TEST(Network, ValuesAndPlacesOfTheLargestAreFoundOnce) {
  const Tensor x = Tensor::from(std::vector<float>{3, NAN, 7, 7, 2, -1, 0, 9}, {2, 4});
  for (const std::int64_t output : {0, 1}) {  // which is first
    Graph g;
    const Value input = g.input("x", {batch, 4});
    const Value two = g.add("two", std::make_shared<Constant>(longs({2}, {1})), {});
    const Value one = g.add("one", Op("TopK", {{"output", output}}), {input, two});
    const Value other = g.add("other", Op("TopK", {{"output", 1 - output}}), {input, two});
    g.output(output == 0 ? one : other);
    g.output(output == 0 ? other : one);
    Plan plan = g.compile({.device = Device::cpu(), .batch = 2});
    const auto found = plan.run(std::vector<Tensor>{x});
    expect_equal(found[0], {nan_value, 7, 9, 2}, "values");
    expect_equal(found[1], {1, 2, 3, 0}, "places");
    const std::string summary = plan.summary();
    EXPECT_EQ(summary.find("partial sort"), summary.rfind("partial sort")) << summary;
  }
}

TEST(Network, AnyNodeMayBeAnOutput) {
  Graph g;
  const Value x = g.input("x", {batch, 2});
  const Value a = g.add("a", Op("Neg"), x);
  g.output(g.add("b", Op("Abs"), a));
  Plan plan = g.compile({.outputs = {"a", "x"}});
  const Tensor input = floats({1, 2}, 1);
  const auto results = plan.run(std::span(&input, 1));
  EXPECT_EQ(plan.output_names()[1], "x");
  EXPECT_EQ(values_of(results[0]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(values_of(results[1]), (std::vector<float>{1, 2}));
  expect_error([&] { (void)g.compile({.outputs = {"c"}}); }, {"no node", "c"});
  expect_error([&] { (void)g.compile({.outputs = {"a", "a"}}); }, {"once"});
}

TEST(Network, ValuesThatShapesDependOnAreBound) {
  Graph g;
  const Value x = g.input("x", {open, open});
  const Value order = g.input("order", {2}, DType::i64);
  g.output(g.add("y", Op("Reshape"), {x, order}));
  try {
    (void)g.compile({.input_shapes = {{"x", {2, 3}}}});
    FAIL() << "expected UnboundInputs";
  } catch (const UnboundInputs& error) {
    EXPECT_EQ(error.names, std::vector<std::string>{"order"});
    EXPECT_EQ(std::string(error.what()).find("y: Reshape"), 0u) << error.what();
  }
  Plan plan = g.compile({.input_shapes = {{"x", {2, 3}}}, .constants = {{"order", longs({3, 2}, {2})}}});
  ASSERT_EQ(plan.input_names().size(), 1u);
  EXPECT_EQ(plan.run(floats({2, 3})).shape(), (Shape{3, 2}));
  expect_error(
      [&] {
        (void)g.compile({.input_shapes = {{"x", {2, 3}}}, .constants = {{"order", floats({2})}}});
      },
      {"order", "i64", "f32"});
  expect_error([&] { (void)g.compile({.constants = {{"z", floats({2})}}}); }, {"no input", "z"});
  expect_error(
      [&] {
        (void)g.compile({.constants = {{"order", longs({3, 2}, {2})}}});
      },
      {"x", "open", "CompileOptions::input_shapes"});
  expect_error([&] { (void)g.compile({.input_shapes = {{"x", {2, 3, 4}}}}); }, {"x", "[?, ?]", "[2, 3, 4]"});
}

TEST(Network, TakesAndGivesOtherTypes) {
  Graph g;
  const Value table = g.input("table", {4, 2});
  const Value rows = g.input("rows", {3}, DType::i64);
  const Value taken = g.add("taken", Op("Gather"), {table, rows});
  g.output(taken);
  g.output(g.add("best", Op("ArgMax", {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}), taken));
  g.output(g.add("large", Op("Greater"), {taken, g.add("four", std::make_shared<Constant>(floats({1}, 4)), {})}));
  for (const Device device : devices_here()) {
    Plan plan = g.compile({.device = device});
    const Tensor inputs[] = {floats({4, 2}), longs({3, 0, -2}, {3})};
    const auto results = plan.run(inputs);
    EXPECT_EQ(values_of(results[0]), (std::vector<float>{6, 7, 0, 1, 4, 5}));
    EXPECT_EQ(plan.output_dtypes()[1], DType::i64);
    EXPECT_EQ(results[1].values<std::int64_t>()[2], 1);
    ASSERT_EQ(results[2].dtype(), DType::boolean);
    EXPECT_TRUE(results[2].values<bool>()[0]);
    EXPECT_FALSE(results[2].values<bool>()[4]);
    const Tensor wrong[] = {floats({4, 2}), floats({3})};
    expect_error([&] { (void)plan.run(wrong); }, {"rows", "i64", "f32"});
  }
}

TEST(Network, ConstantsHaveThePlansPrecisionAndLayout) {
  // Between convolutions an H200 keeps maps nhwc; the constant is a whole map, so that its order shows.
  for (const Device device : devices_here()) {
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      if (device.is_cpu() && precision != Precision::fp32) continue;
      Graph g;
      const Value x = g.input("x", {batch, 16, 4, 4});
      Conv2d identity({.in = 16, .out = 16, .kernel = 1, .bias = false});
      Tensor weight = Tensor::zeros({16, 16, 1, 1});
      for (std::size_t c = 0; c < 16; ++c) weight.values<float>()[c * 17] = 1;
      identity.set_weight(weight);
      const Value map = g.add("map", std::make_shared<Constant>(floats({1, 16, 4, 4}, -100)), {});
      const Value sum = g.add("sum", Op("Add"), {g.add("a", identity, x), map});
      g.output(g.add("b", identity, sum));
      Plan plan = g.compile({.device = device, .batch = 2, .precision = precision});
      const std::vector<float> y = values_of(plan.run(floats({2, 16, 4, 4}, 1)));
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y[i], static_cast<float>(i + 1) + static_cast<float>(i % 256) - 100) << i << " on " << device;
      }
    }
  }
}

TEST(Network, OutputsMayBeInputsAndConstants) {
  Graph g;
  const Value x = g.input("x", {batch, 2});
  g.output(x);
  g.output(g.add("same", Op("Identity"), x));
  g.output(g.add("size", Op("Size"), x));
  for (const Device device : devices_here()) {
    Plan plan = g.compile({.device = device, .batch = 2});
    const Tensor input = floats({2, 2});
    const auto results = plan.run(std::span(&input, 1));
    EXPECT_EQ(values_of(results[0]), values_of(input));
    EXPECT_EQ(values_of(results[1]), values_of(input));
    EXPECT_EQ(results[2].values<std::int64_t>()[0], 4);
  }
}

TEST(Network, ANetworkWithoutInputsRuns) {
  Graph g;
  g.output(g.add("one", std::make_shared<Constant>(floats({3}, 1)), {}));
  Plan plan = g.compile();
  EXPECT_EQ(values_of(plan.run(std::span<const Tensor>())[0]), (std::vector<float>{1, 2, 3}));
}

TEST(Network, FewerImagesThanTheBatch) {
  Graph g;
  const Value x = g.input("x", {batch, 2, 3});
  g.output(g.add("y", Op("Softmax"), x));
  for (const Device device : devices_here()) {
    Plan plan = g.compile({.device = device, .batch = 4});
    const Tensor all = floats({4, 2, 3});
    const std::vector<float> whole = values_of(plan.run(all));
    for (const std::int64_t n : {1, 3, 4, 2}) {
      const Tensor some = plan.run(all.slice(0, n));
      ASSERT_EQ(some.shape(), (Shape{n, 2, 3}));
      EXPECT_EQ(values_of(some), std::vector<float>(whole.begin(), whole.begin() + n * 6)) << device;
      Tensor target({n, 2, 3});
      const Tensor input = all.slice(0, n);
      plan.run_into({&input, 1}, {&target, 1});
      EXPECT_EQ(values_of(target), values_of(some));
    }
    expect_error([&] { (void)plan.run(floats({5, 2, 3})); }, {"x", "[4, 2, 3]", "[5, 2, 3]"});
    expect_error([&] { (void)plan.run(floats({0, 2, 3})); }, {"x", "[4, 2, 3]"});
  }
}

TEST(Network, WhatMixesImagesNeedsThemAll) {
  Graph g;
  const Value x = g.input("x", {batch, 2});
  const Value axes = g.add("axes", std::make_shared<Constant>(longs({0}, {1})), {});
  g.output(g.add("sum", Op("ReduceSum"), {x, axes}));
  Plan plan = g.compile({.batch = 3});
  EXPECT_EQ(values_of(plan.run(floats({3, 2}))), (std::vector<float>{6, 9}));
  expect_error([&] { (void)plan.run(floats({2, 2})); }, {"sum", "3 images", "2"});
}

TEST(Network, ModelFilesHoldOpsAndConstants) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "ops.safetensors";
  flattened_by_arithmetic().save(path);
  const Graph loaded = Graph::load(path);
  Plan plan = loaded.compile({.batch = 2});
  EXPECT_EQ(values_of(plan.run(floats({2, 2, 3}))), values_of(floats({2, 6})));

  Graph g;
  const Value x = g.input("x", {open, 3}, DType::i32);
  const Value low = g.add("low", std::make_shared<Constant>(Tensor::from(std::vector<std::int32_t>{2}, {})), {});
  g.output(g.add("y", Op("Clip"), {x, Value(), low}));
  g.output(g.add("gelu", Op("Gelu", {{"approximate", std::string("tanh")}}),
                 g.add("f", Op("Cast", {{"to", std::int64_t{1}}}), x)));
  g.save(path);
  Plan typed = Graph::load(path).compile({.input_shapes = {{"x", {1, 3}}}});
  const Tensor input = Tensor::from(std::vector<std::int32_t>{1, 2, 3}, {1, 3});
  EXPECT_EQ(typed.run(std::span(&input, 1))[0].values<std::int32_t>()[2], 2);
}

TEST(Network, ErrorsNameTheNode) {
  Graph g;
  const Value x = g.input("x", {batch, 2});
  g.output(g.add("odd", Op("Transpose", {{"perm", std::vector<std::int64_t>{0, 0}}}), x));
  expect_error([&] { (void)g.compile(); }, {"odd: Transpose", "perm"});
  expect_error([] { (void)Op("StringNormalizer"); }, {"no op \"StringNormalizer\""});
  Graph unknown;
  unknown.output(unknown.add("a", Op("Relu", {{"slope", 1.0}}), unknown.input("x", {1})));
  expect_error([&] { (void)unknown.compile(); }, {"a: ", "slope"});
  expect_error([&] { (void)g.compile({.batch = 0}); }, {"batch", "0"});
}

/// Rows of a table at places that only a run knows.
Graph looked_up(const char* op) {
  Graph g;
  const Value table = g.add("table", std::make_shared<Constant>(floats({3, 2})), {});
  const Value places = g.input("places", {batch, 1}, DType::i64);
  std::vector<Value> operands = {table, places};
  if (op == std::string("ScatterND")) operands.push_back(g.input("updates", {batch, 2}));
  g.output(g.add("rows", std::make_shared<Op>(op), operands));
  return g;
}

TEST(Network, AnIndexThatIsOutsideIsAnErrorOfTheRun) {
  for (const Device device : devices_here()) {
    Plan gather = looked_up("Gather").compile({.device = device, .batch = 2});
    Plan scatter = looked_up("ScatterND").compile({.device = device, .batch = 2});
    const Tensor good = longs({2, -3}, {2, 1});
    for (int repeat = 0; repeat < 3; ++repeat) {  // on a GPU: enqueued, captured, replayed
      const std::string text = "rows: index 3 is outside of an extent of 3";
      EXPECT_EQ(values_of(gather.run(good)), (std::vector<float>{4, 5, 0, 1}));
      expect_error([&] { gather.run(longs({3, 0}, {2, 1})); }, {text});
      expect_error([&] { scatter.run({{"places", longs({0, 3}, {2, 1})}, {"updates", floats({2, 2})}}); }, {text});
      Tensor into({2, 1, 2});
      expect_error([&] { gather.run_into({{longs({0, -4}, {2, 1})}}, {&into, 1}); }, {"index -4 is outside"});
      // Of images that are not there nothing is looked up.
      EXPECT_EQ(values_of(gather.run(longs({1}, {1, 1}))), (std::vector<float>{2, 3}));
    }
  }
}

}  // namespace
}  // namespace lamina::test::network_test
