#include "lamina/graph/graph.h"

#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::graph_test {
namespace {

TEST(Graph, InfersShapes) {
  const Graph graph = branching_network();
  EXPECT_EQ(graph.find("conv2")->shape, (Shape{batch, 4, 7, 6}));
  EXPECT_EQ(graph.find("flat")->shape, (Shape{batch, 4 * 7 * 6}));
  EXPECT_EQ(graph.shapes(5)[1], (Shape{5, 8, 16, 16}));
  EXPECT_EQ(graph.find("nope"), nullptr);
}

TEST(Graph, NamesTheNodeThatDoesNotFit) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 8, 8});
  expect_error([&] { g.add("features.0", Conv2d({.in = 3, .out = 2, .kernel = 3}), x); },
               {"features.0: ", "expected 3 input channels, got 4", "[N, 4, 8, 8]"});
  expect_error([&] { g.add("features.0", Conv2d({.in = 4, .out = 2, .kernel = 9}), x); },
               {"features.0: ", "kernel", "larger than the padded input"});
  expect_error([&] { g.add("input", ReLU(), x); }, {"input", "already"});
  expect_error([&] { g.add("relu", ReLU(), Value{7}); }, {"another graph"});
  Graph other;
  other.input("another", {batch, 4, 8, 8});
  expect_error([&] { other.add("relu", ReLU(), x); }, {"another graph"});  // although the other has such a node
  expect_error([&] { other.output(x); }, {"another graph"});
  Graph moved = std::move(other);
  moved.output(moved.add("relu", ReLU(), Value{0}));
  const Value y = g.add("relu", ReLU(), x);
  g.output(y);
  expect_error([&] { g.output(y); }, {"relu", "output already"});
}

TEST(Graph, UnnamedNodesGetNames) {
  Graph g;
  const Value x = g.input("input", {batch, 4});
  g.output(g.add(ReLU(), g.add(ReLU(), x)));
  EXPECT_NE(g.find("relu_1"), nullptr);
  EXPECT_NE(g.find("relu_2"), nullptr);
}

TEST(Graph, LoadsByStateDictKey) {
  Graph graph = small_network();
  Weights weights;
  const Tensor w = random_tensor({5, 3, 3, 3}, 40);
  weights.set("features.0.weight", w);
  weights.set("features.0.bias", random_tensor({5}, 41).to(DType::bf16));
  weights.set("features.0.num_batches_tracked", Tensor::zeros({}, DType::i64));
  weights.set("classifier.weight", Tensor::zeros({2}));
  EXPECT_EQ(graph.load(weights), std::vector<std::string>{"classifier.weight"});
  const auto& conv = dynamic_cast<const Conv2d&>(*graph.find("features.0")->module);
  EXPECT_EQ(conv.weight().raw(), w.raw());  // f32 is not copied
  EXPECT_EQ(conv.bias().dtype(), DType::f32);
}

TEST(Graph, ListsEverythingThatDoesNotFitAtOnce) {
  Graph graph = branching_network();
  const auto& conv1 = dynamic_cast<const Conv2d&>(*graph.find("conv1")->module);
  const void* before = conv1.weight().raw();
  Weights weights;
  weights.set("conv1.weight", Tensor::zeros({8, 3, 3, 3}));
  weights.set("conv1.bias", Tensor::zeros({9}));
  weights.set("conv2.wieght", Tensor::zeros({4, 8, 3, 5}));
  expect_error([&] { graph.load(weights); },
               {"wrong shape: conv1.bias: expected [8], got [9]", "missing: conv2.weight [4, 8, 3, 5]", "conv2.wieght",
                "missing: side.weight", "missing: side.bias"});
  EXPECT_EQ(conv1.weight().raw(), before);  // nothing was changed
}

TEST(Graph, UntilKeepsWhatItNeeds) {
  const Graph part = branching_network().until("side");
  EXPECT_EQ(part.nodes().size(), 3u);  // input, conv1, side
  EXPECT_EQ(part.outputs().size(), 1u);
  expect_error([&] { (void)part.until("conv2"); }, {"no node \"conv2\"; nearest: \"conv1\""});
}

TEST(Graph, SummaryCounts) {
  const std::string text = small_network().summary(2);
  EXPECT_NE(text.find("features.0"), std::string::npos);
  EXPECT_NE(text.find("[2, 5, 6, 5]"), std::string::npos);
  EXPECT_NE(text.find("140"), std::string::npos);  // 5 * 3 * 3 * 3 + 5 parameters
}

TEST(Graph, RefusesToRunWithoutWeights) {
  Graph g;
  g.output(g.add("conv", Conv2d({.in = 1, .out = 1, .kernel = 1}), g.input("input", {batch, 1, 2, 2})));
  expect_error([&] { (void)g.compile(); }, {"conv", "never set"});
  expect_error([&] { (void)g.state_dict(); }, {"conv.weight", "never set"});
}

}  // namespace
}  // namespace lamina::test::graph_test
