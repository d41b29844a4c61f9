#include "lamina/plan/plan.h"

#include <algorithm>

#include "lamina/layers/linear.h"
#include "support/allocations.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::plan_test {
namespace {

/// What the graph computes, one module after the other, with nothing fused or shared.
std::vector<Tensor> run_plainly(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values;
  std::size_t next = 0;
  for (const Graph::Node& node : graph.nodes()) {
    std::vector<Tensor> operands;
    for (const int input : node.inputs) operands.push_back(values[static_cast<std::size_t>(input)]);
    values.push_back(node.module == nullptr ? inputs[next++] : node.module->forward(operands));
  }
  std::vector<Tensor> outputs;
  for (const int output : graph.outputs()) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

TEST(Plan, ComputesWhatTheModulesDo) {
  const Graph graph = branching_network();
  for (const bool fuse : {false, true}) {
    for (const bool keep_all : {false, true}) {
      for (const std::int64_t n : {1, 3}) {
        const std::vector<Tensor> inputs = {random_tensor({n, 3, 16, 16}, 5)};
        Plan plan = graph.compile({.batch = n, .threads = 2, .fuse = fuse, .keep_all = keep_all});
        for (int repeat = 0; repeat < 2; ++repeat) {
          const auto outputs = plan.run(inputs);
          const auto expected = run_plainly(graph, inputs);
          ASSERT_EQ(outputs.size(), 2u);
          expect_close(outputs[0], expected[0]);
          expect_close(outputs[1], expected[1]);
        }
      }
    }
  }
}

TEST(Plan, FusesReluOnlyWhereNobodyElseLooks) {
  const std::string summary = small_network().compile().summary();
  EXPECT_NE(summary.find("features.1"), std::string::npos) << summary;  // in the column of what was fused
  Plan plan = branching_network().compile();
  EXPECT_NE(plan.summary().find("relu1"), std::string::npos);  // conv1 is read by side too: relu1 is a step of its own
  EXPECT_NE(plan.summary().find("relu2"), std::string::npos);
}

TEST(Plan, ARunAllocatesNothing) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.batch = 2, .threads = 2});
  const std::vector<Tensor> inputs = {random_tensor({2, 3, 16, 16}, 5)};
  std::vector<Tensor> outputs = {Tensor(plan.output_shapes()[0]), Tensor(plan.output_shapes()[1])};
  plan.run(inputs);
  const long before = allocations();
  EXPECT_GT(before, 0);
  plan.run(inputs);
  plan.run_into(inputs, outputs);
  EXPECT_EQ(allocations() - before, 0);
}

TEST(Plan, ARunOfAnyLayerAllocatesNothing) {
  const Graph graph = Graph::load(std::string(LAMINA_TEST_DATA) + "/golden/layers.safetensors");
  Plan plan = graph.compile({.batch = 40, .threads = 2});
  std::vector<Tensor> inputs;
  for (const Shape& shape : plan.input_shapes()) inputs.push_back(random_tensor(shape, 5));
  plan.run(inputs);
  long fewest = 1;  // of three runs: what other tests leave may end meanwhile
  for (int i = 0; i < 3; ++i) {
    const long before = allocations();
    plan.run(inputs);
    fewest = std::min(fewest, allocations() - before);
  }
  EXPECT_EQ(fewest, 0);
}

TEST(Plan, KeepsLinearWeightsInSixteenBits) {
  Linear linear({.in = 300, .out = 7});
  Tensor weight = random_tensor({7, 300}, 1);
  const Tensor bias = random_tensor({7}, 2), input = random_tensor({3, 300}, 3);
  linear.set_weight(weight);
  linear.set_bias(bias);
  Graph graph;
  graph.output(graph.add("fc", linear, graph.input("input", {batch, 300})));
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Plan plan = graph.compile({.batch = 3, .linear_weights = type, .threads = 1});
    EXPECT_EQ(plan.memory().parameters, type == DType::f32 ? 0u : 2u * 7 * 300);
    // Exactly what the rounded weights give, however they are stored.
    Linear rounded({.in = 300, .out = 7});
    rounded.set_weight(weight.to(type).to(DType::f32));
    rounded.set_bias(bias);
    const Tensor expected = rounded(input), found = plan.run(input);
    for (std::size_t i = 0; i < 21; ++i) EXPECT_EQ(found.values<float>()[i], expected.values<float>()[i]) << i;
  }
  expect_error([&] { (void)graph.compile({.linear_weights = DType::u8}); }, {"fc", "linear_weights", "u8"});
  weight.values<float>()[5] = 7e4f;
  (void)graph.compile({.linear_weights = DType::bf16});
  expect_error([&] { (void)graph.compile({.linear_weights = DType::f16}); }, {"fc", "70000", "f16"});
}

TEST(Plan, ProfilesEveryStep) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.threads = 1});
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const std::vector<StepTime> times = plan.profile(inputs, 3);
  ASSERT_EQ(times.size(), 4u);  // relu2 is part of conv2
  EXPECT_EQ(times[0].name, "conv1");
  EXPECT_EQ(times[2].fused, "relu2");
  for (const StepTime& time : times) EXPECT_GE(time.milliseconds, 0) << time.name;
  const auto expected = run_plainly(graph, inputs);
  expect_close(plan.run(inputs)[0], expected[0]);
  expect_error([&] { (void)plan.profile(inputs, 0); }, {"1 run", "0"});
  expect_error([&] { (void)plan.profile({}, 1); }, {"1 inputs", "0"});
}

TEST(Plan, RunIntoWritesToTheCallersMemory) {
  const Graph graph = branching_network();
  Plan plan = graph.compile();
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  std::vector<Tensor> mine = {Tensor(plan.output_shapes()[0]), Tensor(plan.output_shapes()[1])};
  plan.run_into(inputs, mine);
  const auto expected = run_plainly(graph, inputs);
  expect_close(mine[0], expected[0]);
  expect_close(mine[1], expected[1]);
  // A later run goes to the Plan's own memory again.
  const Tensor kept = mine[0].clone();
  plan.run(std::vector<Tensor>{random_tensor({1, 3, 16, 16}, 6)});
  expect_close(mine[0], kept);
}

TEST(Plan, RunsByName) {
  Plan plan = branching_network().compile();
  const Tensor input = random_tensor({1, 3, 16, 16}, 5);
  plan.run({{"input", input}});
  expect_close(plan.output("side"), run_plainly(branching_network(), {input})[1]);
  expect_error([&] { plan.run({{"image", input}}); }, {"no input \"image\"; there is \"input\""});
  expect_error([&] { plan.run({{"input", input}, {"input", input}}); }, {"twice"});
  expect_error([&] { plan.run(std::initializer_list<Plan::NamedTensor>{}); },
               {"input \"input\" is missing; expected all of 1"});
  expect_error([&] { (void)plan.output("conv1"); }, {"no output \"conv1\""});
}

TEST(Plan, CompilingStopsWhenAskedTo) {
  std::stop_source source;
  (void)branching_network().compile({.stop = source.get_token()});
  source.request_stop();
  expect_error([&] { (void)branching_network().compile({.stop = source.get_token()}); }, {"stopped"});
}

TEST(Plan, KeepsActivationsOnRequest) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.keep_all = true});
  const Tensor input = random_tensor({1, 3, 16, 16}, 5);
  expect_error([&] { (void)plan.activation("input"); }, {"after the first run"});
  plan.run(std::vector<Tensor>{input});
  for (const char* name : {"conv1", "relu1", "drop", "conv2", "relu2", "flat", "side"}) {
    const Graph part = graph.until(name);
    expect_close(plan.activation(name), run_plainly(part, {input})[0]);
  }
  expect_error([&] { (void)plan.activation("nope"); }, {"no node \"nope\"; there are \"input\", \"conv1\""});
  Plan plain = graph.compile();
  expect_error([&] { (void)plain.activation("conv1"); }, {"keep_all"});
}

TEST(Plan, AnOutputMayBeTheInputItself) {
  Graph graph;
  const Value x = graph.input("input", {batch, 2, 3});
  graph.output(graph.add("flat", Flatten(), x));
  graph.output(graph.add("drop", Dropout(), x));
  Plan plan = graph.compile({.batch = 2});
  const std::vector<Tensor> inputs = {random_tensor({2, 2, 3}, 1)};
  expect_close(plan.run(inputs)[0], inputs[0].view({2, 6}));
  std::vector<Tensor> mine = {Tensor({2, 6}), Tensor({2, 2, 3})};
  plan.run_into(inputs, mine);
  expect_close(mine[0], inputs[0].view({2, 6}));
  expect_close(mine[1], inputs[0]);
}

TEST(Plan, ReluDoesNotOverwriteWhatIsReadLater) {
  Graph graph;
  const Value x = graph.input("input", {batch, 2, 4, 4});
  const Value c = graph.add("conv", Conv2d({.in = 2, .out = 2, .kernel = 1}), x);
  const Value flat = graph.add("flat", Flatten(), c);  // a view of conv's buffer, read after the relu ran
  graph.output(graph.add("relu", ReLU(), c));
  graph.output(flat);
  randomize(graph);
  const std::vector<Tensor> inputs = {random_tensor({1, 2, 4, 4}, 3)};
  for (const bool fuse : {false, true}) {
    Plan plan = graph.compile({.fuse = fuse});
    const auto outputs = plan.run(inputs);
    const auto expected = run_plainly(graph, inputs);
    expect_close(outputs[0], expected[0]);
    expect_close(outputs[1], expected[1]);
  }
}

TEST(Plan, ReluDoesNotOverwriteTheCallersInput) {
  Graph graph;
  graph.output(graph.add(ReLU(), graph.input("input", {batch, 4})));
  Plan plan = graph.compile();
  const Tensor input = random_tensor({1, 4}, 2);
  const Tensor before = input.clone();
  plan.run(input);
  expect_close(input, before);
}

TEST(Plan, RefusesInputsThatDoNotFit) {
  Plan plan = small_network().compile({.batch = 2});
  expect_error([&] { plan.run(Tensor::zeros({3, 3, 12, 10})); }, {"input", "[2, 3, 12, 10]", "[3, 3, 12, 10]"});
  expect_error([&] { plan.run(Tensor::zeros({2, 3, 12, 10}, DType::u8)); }, {"input", "f32", "u8"});
  expect_error([&] { plan.run(Tensor()); }, {"undefined"});
  std::vector<Tensor> wrong = {Tensor({2, 5})};
  const std::vector<Tensor> inputs = {Tensor::zeros({2, 3, 12, 10})};
  expect_error([&] { plan.run_into(inputs, wrong); }, {"features.1", "[2, 5, 6, 5]", "[2, 5]"});
  expect_error([&] { plan.run_into(inputs, {}); }, {"expected 1 outputs, got 0"});
}

TEST(Plan, RefusesResultsOverWhatTheRunStillReads) {
  const Tensor memory = random_tensor({20}, 2);
  const auto at = [&memory](std::int64_t begin) { return memory.slice(begin, begin + 4).view({1, 4}); };
  Graph graph;
  const Value x = graph.input("x", {batch, 4});
  graph.output(graph.add("positive", ReLU(), x));
  graph.output(graph.add("twice", Add(), {x, x}));
  Plan plan = graph.compile();
  const auto run = [&](std::int64_t first, std::int64_t second) {
    const Tensor input = at(8);
    std::vector<Tensor> mine = {at(first), at(second)};
    plan.run_into({&input, 1}, mine);
  };
  run(4, 12);  // side by side
  expect_error([&] { run(8, 0); }, {"positive: expected memory of its own", "memory of x"});
  expect_error([&] { run(0, 5); }, {"twice: expected memory of its own", "memory of x"});
  expect_error([&] { run(2, 0); }, {"twice: expected memory of its own", "memory of positive"});
}

TEST(Plan, RefusesOptionsThatCannotBe) {
  const Graph graph = small_network();
  expect_error([&] { (void)graph.compile({.batch = 0}); }, {"batch", "0"});
  expect_error([&] { (void)graph.compile({.threads = -1}); }, {"threads", "-1"});
  expect_error([&] { (void)graph.compile({.precision = Precision::fp16}); }, {"features.0", "fp16", "CUDA"});
  expect_error([&] { (void)graph.compile({.algorithm = "wrong"}); }, {"wrong", "cpu", "rows, planes, eigen, direct"});
  expect_error([&] { (void)graph.compile({.device = Device::cuda(77)}); }, {"cuda:77"});
  expect_error([&] { (void)Graph().compile(); }, {"output"});
}

TEST(Plan, MemoryIsWhatTheArenaHolds) {
  const Graph graph = small_network();
  EXPECT_EQ(graph.compile({.batch = 4}).memory().activations, std::size_t{4} * 5 * 6 * 5 * sizeof(float));
  // Unfused and kept: the convolution's and the ReLU's outputs, at aligned offsets; the input stays the caller's.
  EXPECT_EQ(graph.compile({.batch = 4, .keep_all = true}).memory().activations, 2560u + 2400u);
}

TEST(Plan, MemoryIsKnownBeforeAnyIsTaken) {
  const Graph graph = branching_network();
  for (const bool keep_all : {false, true}) {
    const CompileOptions options = {.batch = 3, .threads = 2, .keep_all = keep_all};
    const PlanMemory expected = graph.plan_memory(options), memory = graph.compile(options).memory();
    EXPECT_EQ(expected.activations, memory.activations);
    EXPECT_EQ(expected.workspace, memory.workspace);
    EXPECT_EQ(expected.parameters, memory.parameters);
  }
}

/// A result written over its operand may have several readers of its own: the next in-place operation must not
/// overwrite it under them.
TEST(Plan, InPlaceResultsOutliveEveryReader) {
  Graph g;
  const Value x = g.input("input", {1, 2, 3, 3});
  const Value c = g.add("conv", Conv2d({.in = 2, .out = 2, .kernel = 1}), x);
  const Value s = g.add("first", Sigmoid(), c);
  const Value negative = g.add("second", Sigmoid(), s);
  const Value sum = g.add("sum", Add(), {s, s});
  g.output(g.add("joined", Concat(1), {negative, sum, s}));
  randomize(g);
  const std::vector<Tensor> inputs = {random_tensor({1, 2, 3, 3}, 3)};
  const Tensor expected = run_plainly(g, inputs)[0];
  for (const bool fuse : {true, false}) {
    Plan plan = g.compile({.threads = 2, .fuse = fuse});
    expect_close(plan.run(inputs)[0], expected);
  }
}

TEST(Plan, AConstGraphServesManyThreads) {
  const Graph graph = branching_network();
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 5)};
  const Tensor expected = run_plainly(graph, inputs)[0];
  in_threads(4, [&](std::size_t) {
    Plan plan = graph.compile({.threads = 2});
    for (int i = 0; i < 20; ++i) expect_close(plan.run(inputs)[0], expected);
  });
}

}  // namespace
}  // namespace lamina::test::plan_test
