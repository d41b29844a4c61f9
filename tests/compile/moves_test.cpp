// Moves of elements that follow each other, also across what is done row by row: fewer of them, and the same results.

#include <algorithm>

#include "compile/fused.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/op.h"
#include "support/networks.h"
#include "support/run_problem.h"

namespace lamina::test::moves_test {
namespace {

constexpr std::int64_t images = 3, length = 5, heads = 2, depth = 4, width = heads * depth;

int count_moves(const Graph& graph) {
  CompileOptions options = {.batch = images, .threads = 1};
  options.description = describe(Device::cpu());
  int count = 0;
  for (const auto& operation : program_before("formats", graph, options).operations)
    count += operation.module->op() == "move";
  return count;
}

/// Moves that are steps of a plan.
int count_copies(const Graph& graph) {
  const std::string summary = graph.plan_summary({.batch = images, .threads = 1});
  int count = 0;
  for (std::size_t at = summary.find("copies"); at != std::string::npos; at = summary.find("copies", at + 1)) ++count;
  return count;
}

void expect_same(const Graph& graph, const std::vector<Tensor>& inputs) { expect_same_unfused(graph, images, inputs); }

/// ShuffleNet's: the halves of the shuffled channels are moves of the image itself, which may be channels last, and not
/// of what it is under the shuffle's five dimensions.
TEST(Moves, OfAShuffledImageReadTheImage) {
  Graph g;
  const Value x = g.input("x", {batch, 8, 3, 4});
  const auto convolved = [&](Value from, int in, int out) {
    Conv2d conv({.in = in, .out = out, .kernel = 1, .bias = false});
    conv.set_weight(random_tensor({out, in, 1, 1}, 3));
    return g.add(next_name(), std::move(conv), from);
  };
  const Value image = convolved(x, 8, 8);
  const Value shuffled = transposed(g, reshaped(g, image, {images, 2, 4, 3, 4}), {0, 2, 1, 3, 4});
  const Value whole = reshaped(g, shuffled, {images, 8, 3, 4});
  for (const std::int64_t first : {0, 4}) {
    const Value half = op(g, "Slice", {whole, integers(g, {first}), integers(g, {first + 4}), integers(g, {1})});
    g.output(convolved(half, 4, 5));
  }
  CompileOptions options = {.batch = images, .threads = 1};
  detail::settle_options(g, options);
  int moves = 0;
  const detail::Program program = program_before("formats", g, options);
  for (const auto& operation : program.operations) {
    if (operation.module->op() != "move") continue;
    ++moves;
    EXPECT_EQ(program.value(operation.inputs[0]).shape, Shape({images, 8, 3, 4}));
  }
  EXPECT_EQ(moves, 2);
  expect_same(g, {random_tensor({images, 8, 3, 4}, 1)});
}

/// Attention as PyTorch's nn.MultiheadAttention is exported: the batch is moved behind the sequence and back.
Value attention(Graph& g, Value x, bool other_reader) {
  const Value sequence_first = transposed(g, x, {1, 0, 2});
  const Value projected = multiplied(g, sequence_first, width, 3 * width, 10);
  const Value parts = transposed(g, reshaped(g, projected, {length, -1, 3, width}), {2, 0, 1, 3});
  std::vector<Value> qkv;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Value part =
        op(g, "Gather", {parts, constant(g, Tensor::from(std::vector{i}, Shape{}))}, {{"axis", std::int64_t{0}}});
    const Value by_head = transposed(g, reshaped(g, part, {length, -1, depth}), {1, 0, 2});
    qkv.push_back(reshaped(g, by_head, {-1, heads, length, depth}));
  }
  const Value scores = op(g, "MatMul", {qkv[0], transposed(g, qkv[1], {0, 1, 3, 2})});
  const Value mixed = op(g, "MatMul", {op(g, "Softmax", {scores}), qkv[2]});
  const Value together = reshaped(g, transposed(g, mixed, {2, 0, 1, 3}), {-1, width});
  const Value out = reshaped(g, multiplied(g, together, width, width, 20), {length, -1, width});
  if (other_reader) g.output(op(g, "Relu", {sequence_first}));
  return transposed(g, out, {1, 0, 2});
}

TEST(Moves, AttentionKeepsThoseThatItNeeds) {
  for (const bool other_reader : {false, true}) {
    Graph g;
    const Value x = g.input("x", {batch, length, width});
    g.output(op(g, "Add", {x, attention(g, x, other_reader)}));
    expect_same(g, {random_tensor({images, length, width}, 5)});
    EXPECT_EQ(count_moves(g), other_reader ? 5 : 4);   // queries, keys, values, and their mixture
    EXPECT_EQ(count_copies(g), other_reader ? 1 : 0);  // attention reads and writes them where they are
  }
}

/// One image: all moves are views then, and the sum is the last layer's still.
TEST(Moves, NothingStandsBetweenALayerAndASumOfOneImage) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  g.output(op(g, "Add", {x, attention(g, x, false)}));
  CompileOptions options = {.batch = 1, .threads = 1};
  options.description = describe(Device::cpu());
  std::vector<std::string> steps;
  for (const auto& operation : program_before("formats", g, options).operations) {
    if (!operation.view) steps.emplace_back(operation.module->op());
  }
  EXPECT_EQ(std::ranges::count(steps, "linear"), 2);
  EXPECT_EQ(std::ranges::count(steps, "elementwise"), 0);
  const Tensor input = random_tensor({1, length, width}, 5);
  const Tensor together = g.compile({.batch = 1, .threads = 1}).run(input).clone();
  const Tensor apart = g.compile({.batch = 1, .threads = 1, .fuse = false}).run(input).clone();
  for (std::size_t i = 0; i < apart.values<float>().size(); ++i) {
    ASSERT_NEAR(together.values<float>()[i], apart.values<float>()[i], 1e-4f) << "element " << i;
  }
}

/// SwiGLU's halves, if they are runs of elements that are worth it.
TEST(Moves, HalvesOfAGatedUnitAreReadWhereTheyLie) {
  for (const std::int64_t half : {32, 8}) {
    Graph g;
    const Value wide = multiplied(g, g.input("x", {batch, length, width}), width, 2 * half, 3);
    const auto part = [&](std::int64_t first) {
      return op(g, "Slice", {wide, integers(g, {first}), integers(g, {first + half}), integers(g, {2})});
    };
    const Value gate = part(0), active = op(g, "Mul", {gate, op(g, "Sigmoid", {gate})});
    g.output(multiplied(g, op(g, "Mul", {active, part(half)}), half, width, 4));
    EXPECT_EQ(count_copies(g), half == 32 ? 0 : 2);
    expect_same(g, {random_tensor({images, length, width}, 5)});
  }
}

TEST(Moves, WhatTheCallerReadsStays) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value first = transposed(g, x, {1, 0, 2}), second = transposed(g, first, {2, 1, 0});
  g.output(first);
  g.output(second);
  expect_same(g, {random_tensor({images, length, width}, 6)});
}

TEST(Moves, AreJoinedAcrossFunctionsOfRows) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value there = transposed(g, x, {1, 0, 2});
  const Value y = op(g, "Relu", {multiplied(g, there, width, 3, 30)});
  g.output(transposed(g, y, {1, 0, 2}));
  expect_same(g, {random_tensor({images, length, width}, 7)});
  EXPECT_EQ(count_moves(g), 0);  // what is left moves nothing
}

// A vector of as many elements as a row has, along another dimension.
TEST(Moves, DoNotPassWhatDiffersFromRowToRow) {
  Graph g;
  const Value x = g.input("x", {batch, width, width});
  const Value there = transposed(g, x, {1, 0, 2});
  const Value y = op(g, "Mul", {there, constant(g, random_tensor({width, 1, 1}, 8))});
  g.output(transposed(g, y, {1, 0, 2}));
  expect_same(g, {random_tensor({images, width, width}, 9)});
}

/// Behind a view rows may be others: what is done to each of them is not done to those of the move.
TEST(Moves, DoNotPassWhatIsOfOtherRows) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value positive = op(g, "Relu", {transposed(g, x, {1, 0, 2})});
  const Value rows = multiplied(g, reshaped(g, positive, {length, 1, images * width}), images * width, 3, 48);
  const auto one = [&](std::int64_t value) { return integers(g, {value}); };
  g.output(op(g, "Slice", {rows, one(-1), one(-100), one(0), one(-1)}));  // backwards
  expect_same(g, {random_tensor({images, length, width}, 49)});
}

/// A constant of a row may have more dimensions than the view behind it.
TEST(Moves, ConstantsOfRowsKeepTheirDimensions) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value rows = reshaped(g, x, {images * length, 1, width});
  const Value product = op(g, "Mul", {rows, constant(g, random_tensor({1, 1, width}, 50))});
  g.output(op(g, "Neg", {reshaped(g, product, {images * length, width})}));
  expect_same(g, {random_tensor({images, length, width}, 51)});
}

/// One channel a row, and nothing moves: what is behind may yet be no image of these pixels.
TEST(Moves, RowsOfOneElementAreNoPixelsOfMoreChannels) {
  Graph g;
  const Value x = g.input("x", {batch, 6, 3, 6});
  const Value rows = op(g, "MatMul", {x, constant(g, random_tensor({6, 1}, 52))});
  const Value turned = transposed(g, rows, {0, 2, 3, 1});
  g.output(op(g, "Add", {turned, turned}));
  expect_same(g, {random_tensor({images, 6, 3, 6}, 53)});
}

/// What the caller wants of rows has the shape that it has in the graph, whatever it is seen as behind them.
TEST(Moves, AnOutputKeepsItsShapeInFrontOfAView) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value rows = op(g, "Relu", {transposed(g, x, {1, 0, 2})});
  g.output(op(g, "Neg", {reshaped(g, rows, {length * images, width})}));
  g.output(rows);
  expect_same(g, {random_tensor({images, length, width}, 47)});
}

/// The end of a block of ConvNeXt: the rows of a linear layer become pixels, whose channels are scaled before an image
/// is added to them. The layer is a convolution then, and does all of it; not if somebody else reads its rows, or if
/// they become something else.
TEST(Moves, RowsThatBecomePixelsAreAConvolutions) {
  constexpr std::int64_t channels = 6, side = 4;
  struct Case {
    bool biased, other_reader;
    std::vector<std::int64_t> back;
    int convolutions;
  };
  for (const Case& c : {Case{true, false, {0, 3, 1, 2}, 1}, Case{false, false, {0, 3, 1, 2}, 1},
                        Case{true, true, {0, 3, 1, 2}, 0}, Case{true, false, {0, 3, 2, 1}, 0}}) {
    Graph g;
    const Value x = g.input("x", {batch, channels, side, side});
    const Value hidden = op(g, "Relu", {multiplied(g, transposed(g, x, {0, 2, 3, 1}), channels, 10, 40)});
    const Value rows = c.biased ? multiplied(g, hidden, 10, channels, 42)
                                : op(g, "MatMul", {hidden, constant(g, random_tensor({10, channels}, 44))});
    const Value factors = constant(g, random_tensor({channels, 1, 1}, 45));
    g.output(op(g, "Add", {op(g, "Mul", {factors, transposed(g, rows, c.back)}), x}));
    if (c.other_reader) g.output(op(g, "Relu", {rows}));
    CompileOptions options = {.batch = images, .threads = 1};
    options.description = describe(Device::cpu());
    int convolutions = 0;
    bool apart = false;  // a step of functions alone
    for (const auto& operation : program_before("formats", g, options).operations) {
      convolutions += operation.module->op() == "conv2d";
      apart |= dynamic_cast<const Elementwise*>(operation.module.get()) != nullptr;
    }
    EXPECT_EQ(convolutions, c.convolutions);
    EXPECT_EQ(apart, c.convolutions == 0);
    expect_same(g, {random_tensor({images, channels, side, side}, 46)});
  }
}

/// PVT's and CMT's hidden images: a depthwise convolution computes them, rows of tokens are made of them, and then
/// comes the activation. The convolution computes that, unless the move adds elements, of which it may make something
/// else.
TEST(Moves, FunctionsBehindThemAreTheConvolutions) {
  constexpr std::int64_t channels = 6, side = 4;
  for (const bool padded : {false, true}) {
    Graph g;
    Conv2d depthwise({.in = channels, .out = channels, .kernel = 3, .padding = 1, .groups = channels, .bias = false});
    depthwise.set_weight(random_tensor({channels, 1, 3, 3}, 51));
    Value x = g.add(next_name(), std::move(depthwise), g.input("x", {batch, channels, side, side}));
    if (padded) x = op(g, "Pad", {x, integers(g, {0, 0, 0, 0, 0, 0, 1, 1})});
    const std::int64_t edge = padded ? side + 1 : side;
    x = transposed(g, reshaped(g, x, {images, channels, edge * edge}), {0, 2, 1});
    const auto number = [&](float value) { return constant(g, Tensor::from(std::vector{value}, Shape{})); };
    const Value error = op(g, "Erf", {op(g, "Div", {x, number(1.41421356f)})});
    const Value product = op(g, "Mul", {x, op(g, "Add", {error, number(1)})});
    const Value scaled = op(g, "Add", {op(g, "Mul", {product, number(0.5f)}), number(padded ? 0.25f : 0.0f)});
    g.output(multiplied(g, scaled, channels, 5, 52));
    CompileOptions options = {.batch = images, .threads = 1};
    options.description = describe(Device::cpu());
    bool apart = false;  // a step of functions alone
    for (const auto& operation : program_before("formats", g, options).operations) {
      apart |= dynamic_cast<const Elementwise*>(operation.module.get()) != nullptr;
    }
    EXPECT_EQ(apart, padded);
    expect_same(g, {random_tensor({images, channels, side, side}, 53)});
  }
}

/// Values without dimensions: they are taken out of others, and no pass asks for a dimension of theirs.
TEST(Moves, OfOneElement) {
  for (const bool through_rows : {false, true}) {
    Graph g;
    Value x = g.input("x", {2, 3});
    const auto number = [&](std::int64_t place) { return constant(g, Tensor::from(std::vector{place}, Shape{})); };
    if (through_rows) {
      x = op(g, "Gather", {reshaped(g, op(g, "Relu", {transposed(g, x, {1, 0})}), {6}), number(4)});
    } else {
      x = op(g, "Gather", {op(g, "Gather", {x, number(1)}), number(2)});
    }
    g.output(op(g, "Neg", {x}));
    const Tensor values = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
    for (const Device device : devices_here()) {
      Plan plan = g.compile({.device = device});
      EXPECT_EQ(plan.run(values).to(Device::cpu()).values<float>()[0], through_rows ? -3 : -6);
    }
  }
}

}  // namespace
}  // namespace lamina::test::moves_test
