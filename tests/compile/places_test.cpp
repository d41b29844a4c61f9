// What is read, and written, where it lies: parts of rows, what is joined behind any dimension, heads of attention. On
// a GPU, which need not be there, and by the CPU's own kernels, whose results are those of the operations one by one.

#include <algorithm>

#include "compile/fused.h"
#include "lamina/kernel/kernel.h"
#include "support/devices.h"

namespace lamina::test::places_test {
namespace {

/// How many steps a plan for an H200 has whose kernels' descriptions begin so; a build without such kernels has no
/// plan.
void expect_kernels(const Graph& graph, std::int64_t images,
                    std::initializer_list<std::pair<std::string_view, std::ptrdiff_t>> expected) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) return;
  CompileOptions options = {.device = Device::cuda(), .batch = images, .precision = Precision::fp16};
  options.description = h200();
  const std::string summary = graph.plan_summary(options);
  for (const auto& [begin, steps] : expected) {
    const std::string line = "\n   " + std::string(begin);
    std::ptrdiff_t count = 0;
    for (std::size_t at = summary.find(line); at != std::string::npos; at = summary.find(line, at + 1)) ++count;
    EXPECT_EQ(count, steps) << begin << '\n' << summary;
  }
}

TEST(Places, ChannelsThatComeLastAreNeitherTurnedNorCopied) {
  const Graph graph = gated_network(28);
  // "one launch" is a concatenation's kernel. Maps: of each block what stays, which is copied where it is joined, and
  // the gate; the caller's input and output.
  expect_kernels(graph, 4, {{"map (turn)", 0}, {"one launch", 0}, {"depthwise", 2}, {"map (map)", 2 * 2 + 2}});
}

TEST(Places, ADepthwiseConvolutionTakesNoSliceOffItsPacks) {
  const Graph graph = gated_network(28, 38, 26);  // 26 channels, which begin in the middle of 4
  expect_kernels(graph, 4, {{"depthwise", 2}, {"one launch", 2}});
}

TEST(Places, WhatIsJoinedHasTheSameElements) {
  for (const auto& [kept, convolved] : {std::pair(40, 24), std::pair(5, 59)}) {
    const Graph graph = gated_network(7, kept, convolved);
    const Tensor input = random_tensor({3, 7, 7, 64}, 1);
    expect_close(graph.compile({.batch = 3, .threads = 2}).run(input),
                 graph.compile({.batch = 3, .threads = 1, .fuse = false}).run(input), 1e-4f);
  }
}

/// Two that are joined are joined again; a part is read by others as well, or joined twice.
TEST(Places, OfJoinedParts) {
  Graph g;
  const Value x = g.input("x", {batch, 6, 8});
  const auto half = [&](Value of) { return op(g, "Mul", {of, constant(g, Tensor::from(std::vector{0.5f}, Shape{}))}); };
  const auto join = [&](std::vector<Value> parts, std::int64_t axis) {
    return op(g, "Concat", std::move(parts), {{"axis", axis}});
  };
  const Value a = op(g, "Relu", {x}), b = op(g, "Tanh", {x}), c = half(x);
  const Value inner = join({a, b}, 2), outer = join({inner, join({c, c}, 2)}, 1);
  g.output(op(g, "Relu", {join({outer, op(g, "Sigmoid", {outer})}, 2)}));
  g.output(b);
  const Tensor input = random_tensor({2, 6, 8}, 1);
  Plan together = g.compile({.batch = 2, .threads = 1}), apart = g.compile({.batch = 2, .threads = 1, .fuse = false});
  for (std::size_t i = 0; i < 2; ++i) expect_close(together.run({&input, 1})[i], apart.run({&input, 1})[i]);
}

/// Heads are images of three-dimensional products, as SAM's encoder has them: queries, keys, values and the result lie
/// where the layers before and behind have them.
TEST(Places, HeadsThatStandAmongImagesAreNotMoved) {
  const std::int64_t heads = 3, depth = 16, length = 20, width = heads * depth, images = 4;
  Graph g;
  const Value rows = multiplied(g, g.input("x", {batch, length, width}), width, 3 * width, 20);
  const Value parts = reshaped(g, transposed(g, reshaped(g, rows, {-1, length, 3, heads, depth}), {2, 0, 3, 1, 4}),
                               {3, -1, length, depth});
  std::vector<Value> qkv;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Value part = constant(g, Tensor::from(std::vector{i}, Shape{}));
    qkv.push_back(op(g, "Gather", {parts, part}, {{"axis", std::int64_t{0}}}));
  }
  const Value scores = op(g, "MatMul", {qkv[0], transposed(g, qkv[1], {0, 2, 1})});
  const Value mixed = op(g, "MatMul", {op(g, "Softmax", {scores}, {{"axis", std::int64_t{-1}}}), qkv[2]});
  const Value back = transposed(g, reshaped(g, mixed, {-1, heads, length, depth}), {0, 2, 1, 3});
  g.output(multiplied(g, reshaped(g, back, {-1, length, width}), width, width, 30));
  expect_kernels(g, images, {{"map (map)", 1}});  // of x, to f16
  const Tensor input = random_tensor({images, length, width}, 1);
  expect_close(g.compile({.batch = images, .threads = 1}).run(input),
               g.compile({.batch = images, .threads = 1, .fuse = false}).run(input), 1e-4f);
}

/// Of no images, or of none in a part: nothing lies anywhere.
TEST(Places, OfNothing) {
  Graph g;
  const Value x = g.input("x", {batch, 6, 8}), none = constant(g, Tensor({2, 6, 0}));
  const Value a = op(g, "Relu", {x}), empty = op(g, "Slice", {x, integers(g, {3}), integers(g, {3}), integers(g, {2})});
  g.output(op(g, "Concat", {a, op(g, "Relu", {empty}), op(g, "Tanh", {x})}, {{"axis", std::int64_t{2}}}));
  g.output(op(g, "Concat", {none, x}, {{"axis", std::int64_t{2}}}));
  const Tensor input = random_tensor({2, 6, 8}, 1);
  Plan together = g.compile({.batch = 2, .threads = 1}), apart = g.compile({.batch = 2, .threads = 1, .fuse = false});
  for (std::size_t i = 0; i < 2; ++i) expect_close(together.run({&input, 1})[i], apart.run({&input, 1})[i]);
  for (const std::int64_t heads : {0, 3}) {
    const std::int64_t rows = heads == 0 ? 0 : 4;
    Graph h;
    std::vector<Value> qkv;
    for (const char* const name : {"q", "k", "v"}) {
      const Value given = h.input(name, {rows, 5, std::max<std::int64_t>(heads, 1), 8});
      qkv.push_back(reshaped(h, transposed(h, given, {0, 2, 1, 3}), {rows * std::max<std::int64_t>(heads, 1), 5, 8}));
    }
    const Value scores = op(h, "MatMul", {qkv[0], transposed(h, qkv[1], {0, 2, 1})});
    h.output(op(h, "MatMul", {op(h, "Softmax", {scores}, {{"axis", std::int64_t{-1}}}), qkv[2]}));
    EXPECT_NO_THROW((void)h.compile({.threads = 1}));
    expect_kernels(h, 1, {{"map (turn)", 0}});
  }
}

/// Attention as YOLO11 and SHViT have it, of channels first: v' p'. `seen`: v is an image to others, too.
Graph channels_first(bool seen) {
  const std::int64_t side = 7, length = side * side, heads = 2, key = 8, depth = 24, each = 2 * key + depth;
  Graph g;
  const Value x = g.input("x", {batch, 32, side, side});
  const Value image = g.add("qkv", Conv2d({.in = 32, .out = static_cast<int>(heads * each), .kernel = 1}), x);
  const Value qkv = reshaped(g, image, {-1, heads, each, length});
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return op(g, "Slice", {qkv, integers(g, {from}), integers(g, {to}), integers(g, {2})});
  };
  const Value q = part(0, key), k = part(key, 2 * key), v = part(2 * key, each);
  const Value scale = constant(g, Tensor::from(std::vector{0.35f}, Shape{}));
  const Value scores = op(g, "Mul", {op(g, "MatMul", {transposed(g, q, {0, 1, 3, 2}), k}), scale});
  const Value weights = transposed(g, op(g, "Softmax", {scores}, {{"axis", std::int64_t{-1}}}), {0, 1, 3, 2});
  Value mixed = reshaped(g, op(g, "MatMul", {v, weights}), {-1, heads * depth, side, side});
  if (seen) {
    const int channels = static_cast<int>(heads * depth);
    Conv2d positions({.in = channels, .out = channels, .kernel = 3, .padding = 1, .groups = channels});
    const Value as_image = reshaped(g, v, {-1, channels, side, side});
    mixed = op(g, "Add", {mixed, g.add("positions", std::move(positions), as_image)});
  }
  g.output(g.add("proj", Conv2d({.in = static_cast<int>(heads * depth), .out = 16, .kernel = 1}), mixed));
  randomize(g);
  return g;
}

TEST(Places, AttentionOfChannelsFirstReadsAndWritesImagesChannelsLast) {
  for (const bool seen : {false, true}) {
    const Graph graph = channels_first(seen);
    // A Map is v as an image, whose heads lie apart.
    expect_kernels(graph, 64, {{"online softmax", 1}, {"map (map)", seen ? 1 : 0}});
    const Tensor input = random_tensor({3, 32, 7, 7}, 1);
    expect_close(graph.compile({.batch = 3, .threads = 1}).run(input),
                 graph.compile({.batch = 3, .threads = 1, .fuse = false}).run(input), 1e-4f);
  }
}

/// What is normalised as a whole is read as it is stored, though exporters write it under another shape.
TEST(Places, ANormOfSomeChannelsReadsThemChannelsLast) {
  Graph g;
  const Value image = g.add("in", Conv2d({.in = 16, .out = 64, .kernel = 1}), g.input("x", {batch, 16, 14, 14}));
  const Value some = op(g, "Slice", {image, integers(g, {0}), integers(g, {24}), integers(g, {1})});
  const Tensor one = Tensor::from(std::vector{1.0f}, Shape{1}), zero = Tensor::from(std::vector{0.0f}, Shape{1});
  const Value norm =
      op(g, "InstanceNormalization", {reshaped(g, some, {0, 1, -1}), constant(g, one), constant(g, zero)});
  const Value scaled = op(g, "Mul", {reshaped(g, norm, {-1, 24, 14, 14}), constant(g, random_tensor({24, 1, 1}, 7))});
  g.output(g.add("out", Conv2d({.in = 24, .out = 8, .kernel = 1}), scaled));
  randomize(g);
  expect_kernels(g, 32, {{"map (turn)", 1}});  // the caller's output
  const Tensor input = random_tensor({3, 16, 14, 14}, 1);
  expect_close(g.compile({.batch = 3, .threads = 1}).run(input),
               g.compile({.batch = 3, .threads = 1, .fuse = false}).run(input), 1e-4f);
}

}  // namespace
}  // namespace lamina::test::places_test
