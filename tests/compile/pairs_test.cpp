// A convolution and the depthwise one that reads it become one operation where a kernel computes both.

#include "compile/fused.h"
#include "lamina/layers/elementwise.h"
#include "support/networks.h"

namespace lamina::test::pairs_test {
namespace {

constexpr int channels = 96, side = 112;

/// As a block of a mobile network begins.
Graph block(bool read_twice) {
  Graph g;
  const Value x = g.input("input", {batch, 16, side, side});
  const Value wide = g.add("wide", Conv2d({.in = 16, .out = channels, .kernel = 1}), x);
  const Value clipped = g.add("clipped", ReLU(), wide);
  const Value deep = g.add(
      "deep", Conv2d({.in = channels, .out = channels, .kernel = 3, .stride = 2, .padding = 1, .groups = channels}),
      clipped);
  g.output(g.add("deep_clipped", ReLU(), deep));
  if (read_twice) g.output(clipped);
  randomize(g);
  return g;
}

/// Operations, and how many of them are pairs.
std::pair<std::size_t, int> operations(const Graph& graph, CompileOptions options) {
  detail::settle_options(graph, options);
  const detail::Program program = program_before("formats", graph, options);
  int pairs = 0;
  for (const auto& op : program.operations) pairs += op.module->op() == "convolution and depthwise convolution";
  return {program.operations.size(), pairs};
}

TEST(Pairs, AreOneOperationWhereNobodyElseReadsWhatLiesBetween) {
  const CompileOptions bf16 = {.batch = 8, .precision = Precision::bf16, .threads = 1};
  EXPECT_EQ(operations(block(false), bf16), std::pair(std::size_t{1}, 1));
  EXPECT_EQ(operations(block(true), bf16), std::pair(std::size_t{2}, 0));
  CompileOptions plain = bf16;
  plain.keep_all = true;
  EXPECT_EQ(operations(block(false), plain).second, 0);
  // In f32 where what lies between outgrows the last cache.
  EXPECT_EQ(operations(block(false), {.batch = 8, .threads = 1}), std::pair(std::size_t{1}, 1));
  EXPECT_EQ(operations(block(false), {.batch = 1, .threads = 1}), std::pair(std::size_t{2}, 0));
}

TEST(Pairs, HaveTheBitsThatTheBatchOfOneHas) {
  const Graph g = block(false);
  const Tensor x = random_tensor({3, 16, side, side}, 5);
  const auto run = [&](const Tensor& images, int threads) {
    Plan plan = g.compile({.batch = images.shape()[0], .precision = Precision::bf16, .threads = threads});
    const Tensor result = plan.run({&images, 1})[0].clone();
    return std::vector<float>(result.values<float>().begin(), result.values<float>().end());
  };
  const std::vector<float> all = run(x, 1), last = run(x.slice(2, 3).clone(), 2);
  EXPECT_EQ(last, std::vector<float>(all.end() - static_cast<std::ptrdiff_t>(last.size()), all.end()));
}

}  // namespace
}  // namespace lamina::test::pairs_test
