// Rows that nobody reads are not computed, and the others are what they were.

#include "compile/fused.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::test::rows_test {
namespace {

constexpr std::int64_t images = 3, length = 7;
constexpr int width = 8;

Value linear(Graph& g, Value x, int in, int out, unsigned seed) {
  Linear layer({.in = in, .out = out});
  layer.set_weight(random_tensor({out, in}, seed));
  layer.set_bias(random_tensor({out}, seed + 1));
  return g.add(next_name(), std::move(layer), x);
}
Value norm(Graph& g, Value x, unsigned seed) {
  return op(g, "LayerNormalization",
            {x, constant(g, random_tensor({width}, seed)), constant(g, random_tensor({width}, seed + 1))});
}
Value row(Graph& g, Value x, std::int64_t which) {
  return op(g, "Gather", {x, constant(g, Tensor::from(std::vector{which}, Shape{}))}, {{"axis", std::int64_t{1}}});
}
/// A transformer's second half of a block.
Value block(Graph& g, Value x, unsigned seed) {
  const Value wide = op(g, "Gelu", {linear(g, norm(g, x, seed), width, 3 * width, seed + 2)});
  return op(g, "Add", {x, linear(g, wide, 3 * width, width, seed + 4)});
}

/// The first half, of two heads.
Value attention(Graph& g, Value x, unsigned seed) {
  const auto by_head = [&](unsigned which) {
    return transposed(g, reshaped(g, linear(g, x, width, width, which), {images, length, 2, width / 2}), {0, 2, 1, 3});
  };
  const Value q = by_head(seed), k = by_head(seed + 2), v = by_head(seed + 4);
  const Value scores = op(g, "MatMul", {q, transposed(g, k, {0, 1, 3, 2})});
  const Value mixed = op(g, "MatMul", {op(g, "Softmax", {scores}), v});
  const Value together = reshaped(g, transposed(g, mixed, {0, 2, 1, 3}), {images, length, width});
  return op(g, "Add", {x, linear(g, together, width, width, seed + 6)});
}

/// The rows of all linear layers.
std::vector<std::int64_t> rows_of_layers(const Graph& graph) {
  CompileOptions options = {.batch = images, .threads = 1};
  detail::settle_options(graph, options);
  const detail::Program program = program_before("formats", graph, options);
  std::vector<std::int64_t> rows;
  for (const auto& operation : program.operations) {
    if (operation.module->op() != "linear") continue;
    const Shape& shape = program.value(operation.output).shape;
    rows.push_back(shape.numel() / shape[-1]);
  }
  return rows;
}

void expect_same(const Graph& graph) {
  expect_same_unfused(graph, images, {random_tensor({images, length, width}, 1)});
}

using Counts = std::vector<std::int64_t>;

/// Each of them is brought forward in one pass over the operations.
TEST(Rows, ManyMovesAreBroughtForwardTogether) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  Value sum = row(g, linear(g, x, width, width, 0), 0);
  constexpr int branches = 300;
  for (int i = 1; i < branches; ++i) {
    sum = op(g, "Add", {sum, row(g, linear(g, x, width, width, static_cast<unsigned>(i)), i % length)});
  }
  g.output(sum);
  EXPECT_EQ(rows_of_layers(g), std::vector<std::int64_t>(branches, images));
}

TEST(Rows, OfAClassTokenAreTakenBeforeTheLastBlock) {
  for (const std::int64_t which : {0, 4}) {
    Graph g;
    const Value x = g.input("x", {batch, length, width});
    const Value before = op(g, "Add", {x, linear(g, x, width, width, 5)});  // read twice, by what is narrowed alone
    g.output(linear(g, row(g, norm(g, block(g, before, 10), 20), which), width, 5, 30));
    EXPECT_EQ(rows_of_layers(g), Counts(4, images));
    expect_same(g);
  }
}

TEST(Rows, OfAttentionHaveQueriesOfTheirOwn) {
  for (const std::int64_t which : {0, 4}) {
    Graph g;
    const Value x = g.input("x", {batch, length, width});
    g.output(row(g, norm(g, block(g, attention(g, x, 40), 10), 20), which));
    EXPECT_EQ(rows_of_layers(g), (Counts{images * length, images * length, images * length, images, images, images}));
    CompileOptions options = {.batch = images, .threads = 1};
    detail::settle_options(g, options);
    const detail::Program program = program_before("formats", g, options);
    int found = 0;
    for (const auto& operation : program.operations) {
      if (operation.module->op() != "attention") continue;
      ++found;
      EXPECT_EQ(program.value(operation.output).shape, Shape({images, 2, 1, width / 2}));
    }
    EXPECT_EQ(found, 1);
    expect_same(g);
  }
}

TEST(Rows, ThatAreReadElsewhereAreComputed) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value before = linear(g, x, width, width, 5);
  g.output(row(g, block(g, before, 10), 0));
  g.output(op(g, "Softmax", {before}, {{"axis", std::int64_t{1}}}));
  EXPECT_EQ(rows_of_layers(g), (Counts{images * length, images, images}));
  expect_same(g);
}

TEST(Rows, OfWhichMostAreTakenStay) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value most = op(g, "Slice",
                        {block(g, x, 10), constant(g, Tensor::from(std::vector<std::int64_t>{1}, Shape{1})),
                         constant(g, Tensor::from(std::vector<std::int64_t>{length}, Shape{1})),
                         constant(g, Tensor::from(std::vector<std::int64_t>{1}, Shape{1}))});
  g.output(linear(g, most, width, width, 20));
  EXPECT_EQ(rows_of_layers(g), (Counts{images * length, images * length, images * (length - 1)}));
  expect_same(g);
}

TEST(Rows, InPartAreNoRows) {
  Graph g;
  const Value x = g.input("x", {batch, length, width});
  const Value half =
      op(g, "Gather", {block(g, x, 10), constant(g, Tensor::from(std::vector<std::int64_t>{1, 5}, Shape{2}))},
         {{"axis", std::int64_t{2}}});
  g.output(linear(g, half, 2, width, 20));
  EXPECT_EQ(rows_of_layers(g), Counts(3, images * length));
  expect_same(g);
}

}  // namespace
}  // namespace lamina::test::rows_test
