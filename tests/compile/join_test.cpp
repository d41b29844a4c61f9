// Concatenation in place: what becomes a slice, and that every network still computes what its modules do.

#include "compile/fused.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/pool2d.h"
#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::test::join_test {
namespace {

Conv2d one_by_one(int in, int out) { return Conv2d({.in = in, .out = out, .kernel = 1}); }
Conv2d three_by_three(int in, int out) { return Conv2d({.in = in, .out = out, .kernel = 3, .padding = 1}); }

/// What the caller gets is nchw; a pooling before it writes that, and the network is channels last.
void end(Graph& graph, Value last) { graph.output(graph.add("end", MaxPool2d({.kernel = 2, .stride = 1}), last)); }

/// The operations that join channels, and how many of them copy.
struct Joins {
  int all = 0, copies = 0;
};
Joins joins_of(const Graph& graph, Precision precision = Precision::fp32) {
  CompileOptions options = {.batch = 2, .precision = precision, .threads = 2};
  detail::settle_options(graph, options);
  const detail::Program program = program_before("strides", graph, options);
  Joins joins;
  for (const auto& op : program.operations) {
    if (op.module->op() != "concat") continue;
    ++joins.all;
    joins.copies += !op.view;
  }
  return joins;
}

void expect_near(const Tensor& found, const Tensor& expected) {
  const auto a = found.values<float>(), b = expected.values<float>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= 1e-4f + 1e-4f * std::abs(b[i])) << "element " << i;
  }
}

/// Twice, as a plan's second run finds what the first one left; with the input where it was and elsewhere.
void expect_right(Graph& graph, const Shape& input) {
  randomize(graph);
  const Tensor x = random_tensor(input, 5);
  Plan plain = graph.compile({.batch = input[0], .threads = 1, .fuse = false, .keep_all = true});
  const auto expected = plain.run({&x, 1});
  Plan plan = graph.compile({.batch = input[0], .threads = 2});
  for (int run = 0; run < 2; ++run) {
    const Tensor again = x.clone();
    const auto found = plan.run({&again, 1});
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t o = 0; o < found.size(); ++o) {
      SCOPED_TRACE(o);
      expect_near(found[o], expected[o]);
    }
  }
}

TEST(Join, BranchesWriteWhereTheyAreJoined) {
  Graph g;
  const Value x = g.input("input", {batch, 5, 9, 8});
  const Value stem = g.add("stem", three_by_three(5, 20), x);
  const Value a = g.add("a", one_by_one(20, 7), stem);
  const Value b = g.add("b", ReLU(), g.add("b.conv", three_by_three(20, 18), stem));
  const Value c = g.add("c", MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}), stem);
  const Value joined = g.add("joined", Concat(1), {a, b, c});
  end(g, g.add("head", one_by_one(45, 6), joined));
  expect_right(g, {2, 5, 9, 8});
  const Joins joins = joins_of(g);
  EXPECT_EQ(joins.all, 1);
  EXPECT_EQ(joins.copies, 0);
}

/// Also in 16 bits, where no value is far from what it is in f32.
TEST(Join, Bf16BranchesWriteWhereTheyAreJoined) {
  Graph g;
  const Value x = g.input("input", {batch, 5, 9, 8});
  const Value stem = g.add("stem", three_by_three(5, 20), x);
  const Value a = g.add("a", one_by_one(20, 8), stem);
  const Value b = g.add("b", ReLU(), g.add("b.conv", three_by_three(20, 18), stem));
  const Value joined =
      g.add("joined", Concat(1), {a, b, g.add("pool", MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}), stem)});
  const Value read = g.add("read", three_by_three(18, 10), b);  // of the slice
  const Value sum = g.add("sum", Add(), {g.add("head", one_by_one(46, 10), joined), read});
  end(g, g.add("last", one_by_one(10, 4), sum));  // whose f32 is not to reach further
  randomize(g);
  EXPECT_EQ(joins_of(g, Precision::bf16).copies, 0);
  const Tensor input = random_tensor({2, 5, 9, 8}, 5);
  const Tensor expected = g.compile({.batch = 2, .threads = 1}).run(input).clone();
  const Tensor found = g.compile({.batch = 2, .precision = Precision::bf16, .threads = 2}).run(input).clone();
  const auto truth = expected.values<float>(), values = found.values<float>();
  float largest = 0;
  for (const float value : truth) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_LE(std::abs(values[i] - truth[i]), 0.03f * largest) << i;
}

TEST(Join, ABranchHasOtherReaders) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 7, 7});
  const Value a = g.add("a", three_by_three(3, 12), x);
  const Value b = g.add("b", three_by_three(12, 9), a);  // reads the slice
  const Value joined = g.add("joined", Concat(1), {a, b});
  end(g, g.add("head", one_by_one(21, 4), joined));
  expect_right(g, {3, 3, 7, 7});
  // The first layer writes an image of its own; a reader that does not know slices keeps its operand whole.
  EXPECT_EQ(joins_of(g).all, 1);

  Graph h;
  const Value y = h.input("input", {batch, 3, 7, 7});
  const Value s = h.add("stem", three_by_three(3, 8), y);
  const Value c = h.add("c", one_by_one(8, 12), s);
  const Value d = h.add("d", three_by_three(12, 9), c);
  const Value both = h.add("joined", Concat(1), {c, d});
  end(h, h.add("head", one_by_one(21, 4), both));
  expect_right(h, {2, 3, 7, 7});
  EXPECT_EQ(joins_of(h).copies, 0);
}

/// Every concatenation but the last is the beginning of the next.
TEST(Join, ADenseBlockIsOneImage) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 8, 6});
  const Value stem = g.add("stem", three_by_three(3, 10), x);
  std::vector<Value> features = {g.add("pool", MaxPool2d({.kernel = 2, .stride = 2}), stem)};
  int channels = 10;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const Value joined = g.add(name + ".joined", std::make_shared<Concat>(1), features);
    const Value scaled =
        g.add(name + ".relu", ReLU(), g.add(name + ".norm", BatchNorm2d({.channels = channels}), joined));
    features.push_back(g.add(name + ".conv", three_by_three(channels, 6), scaled));
    channels += 6;
  }
  const Value joined = g.add("joined", std::make_shared<Concat>(1), features);
  end(g, g.add("head", one_by_one(channels, 4), g.add("norm", BatchNorm2d({.channels = channels}), joined)));
  randomize(g);
  for (const Graph::Node& node : g.nodes()) {
    if (node.module == nullptr || node.module->op() != "batch_norm2d") continue;
    for (const auto& parameter : node.module->parameters()) {
      if (parameter.name != "running_var") continue;
      Tensor positive(parameter.shape);
      for (float& value : positive.values<float>()) value = 1.5f;
      node.module->set_parameter("running_var", positive);
    }
  }
  const Joins joins = joins_of(g);
  EXPECT_EQ(joins.all, 4);
  EXPECT_EQ(joins.copies, 0);
  const Tensor input = random_tensor({2, 3, 8, 6}, 6);
  Plan plain = g.compile({.batch = 2, .threads = 1, .fuse = false, .keep_all = true});
  const Tensor expected = plain.run(input).clone(), found = g.compile({.batch = 2, .threads = 2}).run(input).clone();
  expect_near(found, expected);
}

TEST(Join, WhatIsJoinedTwiceLandsInTheLargerImage) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 5, 5});
  const Value stem = g.add("stem", three_by_three(3, 16), x);
  const Value a = g.add("a", one_by_one(16, 5), stem), b = g.add("b", one_by_one(16, 6), stem);
  const Value c = g.add("c", one_by_one(16, 7), stem);
  const Value inner = g.add("inner", Concat(1), {a, b});
  end(g, g.add("head", one_by_one(18, 4), g.add("outer", Concat(1), {c, inner})));
  expect_right(g, {2, 3, 5, 5});
  const Joins joins = joins_of(g);
  EXPECT_EQ(joins.all, 2);
  EXPECT_EQ(joins.copies, 0);
}

/// x + 1 of images in any format, as somebody else may have written it who never heard of gaps.
class PlusOne final : public Module {
 public:
  std::string_view op() const override { return "test.plus_one"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation& p) const override { return p.keeps_format() && p.input().format.dtype == DType::f32; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override {
    return detail::make_operator("plus one", [](std::span<const Tensor> in, std::span<Tensor> out, const Execution&) {
      for (std::int64_t i = 0; i < in[0].numel(); ++i) detail::floats(out[0])[i] = detail::floats(in[0])[i] + 1;
    });
  }
};

TEST(Join, ALayerOfSomebodyElseIsGivenNoSlices) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 6, 6});
  const Value stem = g.add("stem", three_by_three(3, 8), x);
  const Value a = g.add("a", one_by_one(8, 5), stem), b = g.add("b", one_by_one(8, 6), stem);
  const Value joined = g.add("joined", Concat(1), {g.add("written", PlusOne(), a), b});
  const Value head = g.add("head", one_by_one(11, 6), joined);
  end(g, g.add("sum", Add(), {head, g.add("read", PlusOne(), b)}));
  expect_right(g, {2, 3, 6, 6});
  EXPECT_EQ(joins_of(g).copies, 1);
}

/// One transposition alone: with another behind it, an element for an element would be right by luck.
TEST(Strides, ALayerOfSomebodyElseIsGivenNone) {
  Graph g;
  const Value x = g.input("input", {batch, 5, 7});
  const Op transpose("Transpose", {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  const Value turned = g.add("turned", transpose, {g.add("relu", ReLU(), x)});
  g.output(g.add("last", ReLU(), g.add("read", PlusOne(), turned)));
  expect_right(g, {2, 5, 7});
}

/// The caller's own tensors, one value in two places, a value that two concatenations want, and one that is written
/// over: right, whoever copies.
TEST(Join, WhatCannotBeInPlaceIsCopied) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 6, 6});
  const Value stem = g.add("stem", three_by_three(3, 8), x);
  const Value a = g.add("a", one_by_one(8, 4), stem), b = g.add("b", one_by_one(8, 4), stem);
  const Value s = g.add("sigmoid", Sigmoid(), a);
  const Value twice = g.add("twice", Concat(1), {b, b, s});
  const Value other = g.add("other", Concat(1), {b, a, x});
  const Value head = g.add("head", one_by_one(12, 5), twice);
  g.output(g.add("sum", Add(), {head, g.add("second", one_by_one(11, 5), other)}));
  g.output(twice);
  g.output(b);
  expect_right(g, {2, 3, 6, 6});
  EXPECT_EQ(joins_of(g).copies, 2);
}

Value part(Graph& g, Value x, std::int64_t first, std::int64_t end) {
  return op(g, "Slice", {x, integers(g, {first}), integers(g, {end}), integers(g, {1})});
}

/// y's channels from `from` on, to which x is added, joined with those from `rest` on.
Graph partial_sum(std::int64_t from, std::int64_t rest, bool swapped = false) {
  Graph g;
  const Value x = g.input("x", {batch, 5, 6, 7});
  const Value y = g.add("y", Conv2d({.in = 5, .out = 8, .kernel = 3, .padding = 1}), x);
  std::vector<Value> added = {part(g, y, from, from + 5), x};
  if (swapped) std::swap(added[0], added[1]);
  g.output(op(g, "Concat", {op(g, "Add", added), part(g, y, rest, 8)}, {{"axis", std::int64_t{1}}}));
  randomize(g);
  return g;
}

TEST(PartialSums, AreTheConvolutions) {
  const Tensor x = random_tensor({2, 5, 6, 7}, 3);
  for (const bool swapped : {false, true}) {
    const Graph g = partial_sum(0, 5, swapped);
    EXPECT_EQ(fused(g).size(), 2u);  // zeros behind x, and the convolution that adds it
    expect_same_unfused(g, 2, {x});
  }
}

/// Other channels than the first, some that are left out, or are there twice.
TEST(PartialSums, OfOtherChannelsStayAsTheyAre) {
  const Tensor x = random_tensor({2, 5, 6, 7}, 3);
  for (const auto& [from, rest] : {std::pair{3, 5}, {0, 6}, {0, 4}, {1, 5}}) {
    const Graph g = partial_sum(from, rest);
    EXPECT_GT(fused(g).size(), 2u) << from << ' ' << rest;
    expect_same_unfused(g, 2, {x});
  }
}

}  // namespace
}  // namespace lamina::test::join_test
