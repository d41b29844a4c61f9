// Zeros around images that convolutions read: they are padding, where nothing else is done with them; and taps that see
// nothing but padding are no part of a plan.

#include <optional>
#include <set>
#include <string>

#include "compile/fused.h"
#include "lamina/base/error.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "support/devices.h"
#include "support/networks.h"

namespace lamina::test::padding_test {
namespace {

constexpr std::int64_t images = 2;

struct Case {
  std::int64_t above, left, below, right;
  Size2d kernel, stride;
  int padding = 0, channels = 8, filters = 8, groups = 1, height = 9, width = 8;
};

Value padded(Graph& g, Value x, const Case& c, float fill = 0) {
  const Value pads = integers(g, {0, 0, c.above, c.left, 0, 0, c.below, c.right});
  return op(g, "Pad", {x, pads, constant(g, Tensor::from(std::vector{fill}, Shape{}))});
}
Value convolved(Graph& g, Value x, const Case& c, unsigned seed) {
  Conv2d conv({.in = c.channels,
               .out = c.filters,
               .kernel = c.kernel,
               .stride = c.stride,
               .padding = c.padding,
               .groups = c.groups});
  conv.set_weight(random_tensor({c.filters, c.channels / c.groups, c.kernel.height, c.kernel.width}, seed));
  conv.set_bias(random_tensor({c.filters}, seed + 1));
  return g.add(next_name(), std::move(conv), x);
}

int count_moves(const Graph& g) {
  CompileOptions options = {.batch = images, .threads = 1};
  detail::settle_options(g, options);
  int moves = 0;
  for (const auto& operation : program_before("formats", g, options).operations)
    moves += operation.module->op() == "move";
  return moves;
}

TEST(Padding, IsWhatConvolutionsAloneReadZerosFor) {
  std::set<std::string> ran;
  for (const Case& c :
       {Case{1, 1, 1, 1, 3, 1}, Case{0, 0, 1, 1, 3, 2, 0, 3, 32, 1, 16, 16}, Case{0, 1, 1, 2, 3, 2, 1},
        Case{1, 2, 2, 2, 5, 2, 0, 8, 8, 8}, Case{1, 0, 0, 1, {3, 2}, {2, 1}}, Case{0, 0, 3, 5, 7, {1, 3}, 2, 16, 40, 2},
        Case{2, 3, 0, 0, 3, 2}, Case{0, 0, 9, 9, 3, 4}, Case{0, 2, 0, 2, 3, 1, 0, 24, 24, 24}, Case{0, 0, 1, 2, 1, 1},
        Case{0, 0, 1, 2, 1, 1, 0, 16, 16}, Case{0, 0, 2, 3, 1, 2}, Case{0, 0, 0, 1, 1, 1, 0, 16, 24, 2},
        Case{0, 0, 4, 4, 4, 4, 0, 8, 8, 1, 16, 16}}) {
    Graph g;
    g.output(convolved(g, padded(g, g.input("x", {batch, c.channels, c.height, c.width}), c), c, 3));
    EXPECT_EQ(count_moves(g), 0) << c.above << ' ' << c.left << ' ' << c.below << ' ' << c.right;
    const Tensor x = random_tensor({images, c.channels, c.height, c.width}, 5);
    Plan apart = g.compile({.batch = images, .threads = 1, .fuse = false});
    const Tensor want = apart.run(x).clone();
    for (const char* algorithm : {"lanes", "channels_last", "eigen", "direct"}) {
      std::optional<Plan> plan;
      try {
        plan.emplace(g.compile({.batch = images, .threads = 2, .algorithm = algorithm}));
      } catch (const Error&) {
        continue;  // it does not take such a layer at all
      }
      ran.insert(algorithm);
      const Tensor y = plan->run(x).clone();
      ASSERT_EQ(y.shape(), want.shape());
      for (std::size_t i = 0; i < y.values<float>().size(); ++i)
        ASSERT_NEAR(y.values<float>()[i], want.values<float>()[i], 2e-4f) << algorithm << ' ' << i;
    }
    expect_same_unfused(g, images, {x});
  }
  EXPECT_EQ(ran.size(), 4u);
}

/// Zeros are what is added to nothing: a summand in front of them is no bias, and branches keep them.
TEST(Padding, BehindAnImageAloneIsPaddingToOthersToo) {
  const Case c = {0, 0, 1, 1, 3, 2, 0, 8, 8, 1, 8, 8};
  const Shape image = {batch, c.channels, c.height, c.width};
  const Tensor x = random_tensor({images, c.channels, c.height, c.width}, 5);
  Graph shifted;
  const Value summand = constant(shifted, random_tensor({c.channels, 1, 1}, 6));
  shifted.output(
      convolved(shifted, padded(shifted, op(shifted, "Add", {shifted.input("x", image), summand}), c), c, 3));
  expect_same_unfused(shifted, images, {x});

  Graph branches;
  const Value around = padded(branches, branches.input("x", image), c);
  Case narrow = c;
  narrow.kernel = 2;
  branches.output(op(branches, "Add", {convolved(branches, around, c, 3), convolved(branches, around, narrow, 7)}));
  expect_same_unfused(branches, images, {x});
}

TEST(Padding, StaysWhereItIsMoreThanThat) {
  const Case c = {0, 0, 1, 1, 3, 2};
  for (const int kind : {0, 1, 2}) {
    Graph g;
    const Value x = g.input("x", {batch, c.channels, c.height, c.width});
    const Value zeros = kind == 2 ? op(g, "Pad", {x, integers(g, {0, 0, 0, 0, 0, 1, 0, 0})}) : x;
    const Value around = kind == 2 ? op(g, "Slice", {zeros, integers(g, {1}), integers(g, {9}), integers(g, {1})})
                                   : padded(g, x, c, kind == 0 ? 1.0f : 0.0f);
    g.output(convolved(g, around, c, 3));
    if (kind == 1) g.output(op(g, "Neg", {around}));
    EXPECT_GT(count_moves(g), 0) << kind;
    expect_same_unfused(g, images, {random_tensor({images, c.channels, c.height, c.width}, 5)});
  }
}

constexpr int side = 9;

/// Three branches of one image, as DeepLabV3's, joined.
Graph branches() {
  Graph g;
  const Value x = g.input("input", {batch, 8, side, side});
  std::vector<Value> joined;
  for (const int dilation : {4, 8, 9}) {
    const std::string name = detail::concat("dilation", dilation);
    const Value y =
        g.add(name, Conv2d({.in = 8, .out = 16, .kernel = 3, .padding = dilation, .dilation = dilation}), x);
    joined.push_back(g.add(name + "_relu", ReLU(), y));
  }
  g.output(g.add("joined", Concat(1), {joined[0], joined[1], joined[2]}));
  randomize(g);
  return g;
}

std::vector<Size2d> kernels_of(const Graph& graph, CompileOptions options) {
  detail::settle_options(graph, options);
  const detail::Program program = program_before("formats", graph, options);
  std::vector<Size2d> result;
  for (const auto& op : program.operations) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(op.module.get())) result.push_back(conv->options().kernel);
  }
  return result;
}

TEST(LiveWindows, AreWhatIsLeftOfConvolutions) {
  const Graph g = branches();
  EXPECT_EQ(kernels_of(g, {}), (std::vector<Size2d>{3, 3, 1}));
  CompileOptions plain;
  plain.keep_all = true;
  EXPECT_EQ(kernels_of(g, plain), (std::vector<Size2d>{3, 3, 3}));
}

TEST(LiveWindows, ComputeTheSame) {
  const Graph g = branches();
  const Tensor x = random_tensor({2, 8, side, side}, 3);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto run = [&](bool fuse) {
      Plan plan = g.compile({.batch = 2, .precision = precision, .threads = 1, .fuse = fuse});
      return plan.run({&x, 1})[0].clone();
    };
    const Tensor narrow = run(true), whole = run(false);
    const double tolerance = precision == Precision::fp32 ? 1e-5 : 4e-2;
    for (std::size_t i = 0; i < narrow.values<float>().size(); ++i) {
      ASSERT_NEAR(narrow.values<float>()[i], whole.values<float>()[i], tolerance) << i;
    }
  }
}

}  // namespace
}  // namespace lamina::test::padding_test
