// Attention within windows of an image, as Swin and MaxViT are exported: rolls, windows under other shapes, several
// masks. Few operations are left of it, and the same results.

#include <algorithm>

#include "compile/fused.h"
#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::test::windows_test {
namespace {

constexpr std::int64_t images = 3, side = 6, window = 3, across = side / window, windows = across * across;
constexpr std::int64_t length = window * window, heads = 2;

struct Builder {
  Graph g;

  Value constant(Tensor value) { return test::constant(g, std::move(value)); }
  Value integers(const std::vector<std::int64_t>& values) { return test::integers(g, values); }
  Value op(const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
    return test::op(g, what, std::move(inputs), std::move(attributes));
  }
  Value reshaped(Value x, const std::vector<std::int64_t>& shape) { return test::reshaped(g, x, shape); }
  Value transposed(Value x, const std::vector<std::int64_t>& order) { return test::transposed(g, x, order); }
  Value slice(Value x, std::int64_t axis, std::int64_t from, std::int64_t to, std::int64_t step = 1) {
    return op("Slice", {x, integers({from}), integers({to}), integers({axis}), integers({step})});
  }
  Value joined(std::vector<Value> parts, std::int64_t axis) { return op("Concat", std::move(parts), {{"axis", axis}}); }
  /// As torch.roll is exported, of both sides.
  Value rolled(Value x, std::int64_t by) {
    for (const std::int64_t axis : {1, 2}) {
      const std::int64_t end = (side - by) % side;
      x = joined({slice(x, axis, end, side), slice(x, axis, 0, end)}, axis);
    }
    return x;
  }
  Value linear(Value x, std::int64_t in, std::int64_t out, unsigned seed) {
    return test::multiplied(g, x, in, out, seed);
  }
};

enum class Scores { as_they_are, of_each_image, of_three_dimensions };

/// A block: the sum of an image and of attention within its windows, of which each has a mask of its own if they were
/// shifted.
Graph block(std::int64_t depth, std::int64_t shift, Scores how) {
  Builder b;
  const std::int64_t width = heads * depth;
  const Value x = b.g.input("x", {batch, side, side, width});
  Value y = shift > 0 ? b.rolled(x, side - shift) : x;
  y = b.transposed(b.reshaped(y, {-1, across, window, across, window, width}), {0, 1, 3, 2, 4, 5});
  y = b.linear(b.reshaped(y, {-1, length, width}), width, 3 * width, 20);
  const Value parts = b.transposed(b.reshaped(y, {-1, length, 3, heads, depth}), {2, 0, 3, 1, 4});
  std::vector<Value> qkv;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Value part = b.constant(Tensor::from(std::vector{i}, Shape{}));
    qkv.push_back(b.op("Gather", {parts, part}, {{"axis", std::int64_t{0}}}));
    if (how == Scores::of_three_dimensions) qkv.back() = b.reshaped(qkv.back(), {-1, length, depth});
  }
  // A factor for all, or one for each head.
  const Value number = b.constant(how == Scores::of_each_image ? Tensor::from(std::vector{0.2f, -0.1f}, {heads, 1, 1})
                                                               : Tensor::from(std::vector{0.4f}, Shape{}));
  const bool flat = how == Scores::of_three_dimensions;
  const Value turned =
      b.transposed(qkv[1], flat ? std::vector<std::int64_t>{0, 2, 1} : std::vector<std::int64_t>{0, 1, 3, 2});
  Value scores = b.op("Mul", {b.op("MatMul", {qkv[0], turned}), number});
  if (flat) scores = b.reshaped(scores, {-1, windows, heads, length, length});
  scores = b.op("Add", {scores, b.constant(random_tensor({1, heads, length, length}, 30))});
  if (shift > 0) {
    scores = b.reshaped(scores, {-1, windows, heads, length, length});
    scores = b.op("Add", {scores, b.constant(random_tensor({1, windows, 1, length, length}, 31))});
    if (how == Scores::as_they_are) scores = b.reshaped(scores, {-1, heads, length, length});
  }
  Value weights = b.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (how == Scores::of_each_image && shift > 0) weights = b.reshaped(weights, {-1, heads, length, length});
  if (flat) weights = b.reshaped(weights, {-1, length, length});
  Value mixed = b.op("MatMul", {weights, qkv[2]});
  if (flat) mixed = b.reshaped(mixed, {-1, heads, length, depth});
  y = b.linear(b.reshaped(b.transposed(mixed, {0, 2, 1, 3}), {-1, length, width}), width, width, 40);
  y = b.transposed(b.reshaped(y, {-1, across, across, window, window, width}), {0, 1, 3, 2, 4, 5});
  y = b.reshaped(y, {-1, side, side, width});
  b.g.output(b.op("Add", {x, shift > 0 ? b.rolled(y, shift) : y}));
  return std::move(b.g);
}

std::vector<std::string> steps_of(const Graph& graph, std::int64_t n = images) {
  CompileOptions options = {.batch = n, .threads = 1};
  options.description = describe(Device::cpu());
  std::vector<std::string> steps;
  for (const auto& operation : program_before("formats", graph, options).operations) {
    if (!operation.view) steps.emplace_back(operation.module->op());
  }
  return steps;
}

void expect_same(const Graph& graph, const Tensor& input, std::int64_t n = images) {
  Plan together = graph.compile({.batch = n, .threads = 1});
  Plan apart = graph.compile({.batch = n, .threads = 1, .fuse = false});
  const Tensor x = together.run(input), y = apart.run(input);
  ASSERT_EQ(x.shape(), y.shape());
  for (std::size_t i = 0; i < x.values<float>().size(); ++i) {
    ASSERT_NEAR(x.values<float>()[i], y.values<float>()[i], 1e-4f) << "element " << i;
  }
}

TEST(Windows, AttentionIsOneOperationUnderAnyShapeOfItsScores) {
  for (const Scores how : {Scores::as_they_are, Scores::of_each_image, Scores::of_three_dimensions}) {
    for (const std::int64_t shift : {0, 1, 4}) {
      for (const std::int64_t depth : {4, 9}) {  // 9: keys are square
        SCOPED_TRACE(detail::concat("way ", static_cast<int>(how), ", shift ", shift, ", depth ", depth));
        const Graph graph = block(depth, shift, how);
        const auto steps = steps_of(graph);
        EXPECT_EQ(std::ranges::count(steps, "attention"), 1);
        // Queries, keys, values, their mixture and its way back, and the division into windows; a roll before that.
        const std::size_t moves = shift > 0 ? 6 : 5;
        EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(steps, "move")), moves);
        // Two layers, of which the last adds; factors of heads are the queries'.
        EXPECT_EQ(steps.size(), moves + 3 + (how == Scores::of_each_image ? 1 : 0));
        expect_same(graph, random_tensor({images, side, side, heads * depth}, 1));
      }
    }
  }
}

/// As SAM's image encoder is exported: heads are images of three-dimensional products, and what is added to scores is
/// computed of the queries, which others read so; of one mask for each head, and of one for all.
TEST(Windows, RelativePositionsOfQueriesAreAMask) {
  for (const bool each : {true, false}) {
    Builder b;
    const std::int64_t depth = 4, width = heads * depth;
    const Value y = b.linear(b.g.input("x", {batch, length, width}), width, 3 * width, 20);
    const Value parts =
        b.reshaped(b.transposed(b.reshaped(y, {-1, length, 3, heads, depth}), {2, 0, 3, 1, 4}), {3, -1, length, depth});
    std::vector<Value> qkv;
    for (std::int64_t i = 0; i < 3; ++i) {
      qkv.push_back(
          b.op("Gather", {parts, b.constant(Tensor::from(std::vector{i}, Shape{}))}, {{"axis", std::int64_t{0}}}));
    }
    const Value rows = b.linear(qkv[0], depth, window, 30), columns = b.linear(qkv[0], depth, window, 40);
    Value mask = b.op("Add", {b.reshaped(rows, {-1, length, window, 1}), b.reshaped(columns, {-1, length, 1, window})});
    mask = b.reshaped(mask, {-1, length, length});
    if (!each) mask = b.op("ReduceMax", {mask, b.integers({0})});
    const Value number = b.constant(Tensor::from(std::vector{0.4f}, Shape{}));
    Value scores = b.op("MatMul", {b.op("Mul", {qkv[0], number}), b.transposed(qkv[1], {0, 2, 1})});
    scores = b.op("Add", {scores, mask});
    const Value mixed = b.op("MatMul", {b.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), qkv[2]});
    b.g.output(
        b.reshaped(b.transposed(b.reshaped(mixed, {-1, heads, length, depth}), {0, 2, 1, 3}), {-1, length, width}));
    EXPECT_EQ(std::ranges::count(steps_of(b.g), "attention"), 1) << each;
    expect_same(b.g, random_tensor({images, length, width}, 1));
  }
}

// A mask that is not known, or is not for every image alike, stays what it is.
TEST(Windows, MasksOfOneImageAloneAreNotRepeated) {
  Builder b;
  const Value q = b.g.input("q", {batch, heads, length, 4}), k = b.g.input("k", {batch, heads, 4, length}),
              v = b.g.input("v", {batch, heads, length, 4});
  Value scores = b.op("MatMul", {q, k});
  scores = b.op("Add", {scores, b.constant(random_tensor({1, heads, length, length}, 30))});
  scores = b.reshaped(scores, {1, -1, heads, length, length});
  scores = b.op("Add", {scores, b.constant(random_tensor({1, images, 1, length, length}, 31))});
  const Value weights = b.op("Softmax", {b.reshaped(scores, {-1, heads, length, length})});
  b.g.output(b.op("MatMul", {weights, v}));
  std::vector<Tensor> inputs;
  for (const Shape& one :
       {Shape{images, heads, length, 4}, Shape{images, heads, 4, length}, Shape{images, heads, length, 4}})
    inputs.push_back(random_tensor(one, 2));
  Plan together = b.g.compile({.batch = images, .threads = 1});
  Plan apart = b.g.compile({.batch = images, .threads = 1, .fuse = false});
  const Tensor x = together.run(inputs)[0], y = apart.run(inputs)[0];
  for (std::size_t i = 0; i < x.values<float>().size(); ++i) {
    ASSERT_NEAR(x.values<float>()[i], y.values<float>()[i], 1e-4f) << "element " << i;
  }
}

/// An image count of 0, which files may have: masks are for no matrix then.
TEST(Windows, NoImagesAtAll) {
  Builder b;
  const Value q = b.g.input("q", {0, heads, length, 4}), k = b.g.input("k", {0, heads, length, 4}),
              v = b.g.input("v", {0, heads, length, 4});
  Value scores = b.op("Add", {b.op("MatMul", {q, b.transposed(k, {0, 1, 3, 2})}),
                              b.constant(random_tensor({1, heads, length, length}, 30))});
  scores = b.op("Add", {scores, b.constant(random_tensor({length, length}, 31))});
  b.g.output(b.op("MatMul", {b.op("Softmax", {scores}), v}));
  Plan plan = b.g.compile({.threads = 1});
  const std::vector<Tensor> inputs = {Tensor({0, heads, length, 4}), Tensor({0, heads, length, 4}),
                                      Tensor({0, heads, length, 4})};
  EXPECT_EQ(plan.run(inputs)[0].shape(), (Shape{0, heads, length, 4}));
}

/// Every second pixel and the others, side by side as channels.
TEST(Windows, PixelsJoinedAsChannelsAreOneMove) {
  for (const bool last : {false, true}) {
    Builder b;
    const std::int64_t axis = last ? 3 : 1, first = last ? 1 : 2;
    const Value x = b.g.input("x", {batch, side, side, side});
    std::vector<Value> parts;
    for (const std::int64_t column : {0, 1}) {
      for (const std::int64_t row : {0, 1}) {
        parts.push_back(b.slice(b.slice(x, first, row, side, 2), first + 1, column, side, 2));
      }
    }
    b.g.output(b.op("Relu", {b.joined(parts, axis)}));
    EXPECT_EQ(steps_of(b.g), (std::vector<std::string>{"move", "relu"}));
    expect_same(b.g, random_tensor({images, side, side, side}, 1));
  }
}

/// An assignment to a part of a tensor, as it is exported.
TEST(Windows, KnownPlacesAreMoved) {
  const auto check = [](const std::vector<std::int64_t>& rows) {
    Builder b;
    const auto count = static_cast<std::int64_t>(rows.size());
    const Value x = b.g.input("x", {4, 3});
    const Value updates = b.op("Neg", {b.op("Gather", {x, b.integers(rows)})});
    Tensor at({count, 1}, DType::i64);
    std::ranges::copy(rows, at.values<std::int64_t>().begin());
    b.g.output(b.op("ScatterND", {x, b.constant(at), updates}));
    const auto steps = steps_of(b.g, 1);
    EXPECT_EQ(std::ranges::count(steps, "scatter"), 0);
    expect_same(b.g, random_tensor({4, 3}, 1), 1);
  };
  check({0, 1, 2, 3});   // all of it, in order
  check({2, 3, 1, 0});   // all of it
  check({3, 1});         // the others are the data's
  check({1, -1, 1, 1});  // the last one stays
  check({});             // nothing is written
}

}  // namespace
}  // namespace lamina::test::windows_test
