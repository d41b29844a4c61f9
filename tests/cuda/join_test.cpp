// Concatenation in place on a GPU: branches and dense blocks whose kernels write to slices of an image and read them.

#include <array>
#include <limits>
#include <string>
#include <tuple>

#include "compile/fused.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/pool2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"

namespace lamina::join_test {
namespace {

class CudaJoin : public test::OnGpu {};
LAMINA_ON_GPUS(CudaJoin);

constexpr std::int64_t images = 3;

Value convolved(Graph& g, const std::string& name, Value x, int in, int out, int kernel) {
  return g.add(name, Conv2d({.in = in, .out = out, .kernel = kernel, .padding = kernel / 2}), x);
}

/// What the caller gets is nchw; a pooling before it writes that, and the network is channels last.
void end(Graph& g, Value last) { g.output(g.add("end", MaxPool2d({.kernel = 2, .stride = 1}), last)); }

/// Weights small enough that 16 bits hold everything; variances positive.
void initialise(Graph& graph) {
  test::randomize(graph);
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const auto& parameter : node.module->parameters()) {
      if (parameter.value.dtype() != DType::f32) continue;
      Tensor smaller(parameter.shape);
      const auto values = parameter.value.values<float>();
      const float scale = parameter.name == "weight" && parameter.shape.rank() == 4
                              ? 1.0f / std::sqrt(static_cast<float>(parameter.shape.numel() / parameter.shape[0]))
                              : 1.0f;
      for (std::size_t i = 0; i < values.size(); ++i) {
        smaller.values<float>()[i] = parameter.name == "running_var" ? 1.5f : values[i] * scale;
      }
      node.module->set_parameter(parameter.name, smaller);
    }
  }
}

int copies(const Graph& graph, const CompileOptions& options) {
  const std::string summary = graph.plan_summary(options);
  int count = 0;
  for (std::size_t at = summary.find("one launch"); at != std::string::npos; at = summary.find("one launch", at + 1)) {
    ++count;
  }
  return count;
}

/// Against the CPU, in every precision, in the first run and in the second, also as on GPUs before Hopper; `copied`:
/// the concatenations that copy something, on Hopper in 16 bits.
void expect_right(Graph& graph, Device gpu, int copied) {
  initialise(graph);
  const Tensor x = test::random_tensor(graph.compile({.batch = images}).input_shapes()[0], 5);
  const Tensor expected = graph.compile({.batch = images, .threads = 1, .fuse = false}).run(x).clone();
  constexpr std::array precisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16};
  for (std::size_t which = 0; which < 2 * precisions.size(); ++which) {
    const Precision precision = precisions[which % precisions.size()];
    CompileOptions options = {.device = gpu, .batch = images, .precision = precision, .description = describe(gpu)};
    if (which >= precisions.size()) {
      if (options.description->architecture < 90) break;
      options.description = test::as_ampere(*options.description);
    }
    if (options.description->wgmma && size_of(storage_type(precision)) == 2) {
      EXPECT_EQ(copies(graph, options), copied);
    }
    Plan plan = graph.compile(options);
    for (int run = 0; run < 2; ++run) {
      const Tensor found = plan.run(x.clone()).clone();
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
        const double a = found.values<float>()[i], b = expected.values<float>()[i];
        error += (a - b) * (a - b), norm += b * b;
      }
      const double bound = precision == Precision::fp32 ? 2e-5 : precision == Precision::bf16 ? 3e-2 : 4e-3;
      EXPECT_LT(std::sqrt(error / norm), bound) << name(precision) << ", run " << run << '\n' << plan.summary();
    }
  }
}

TEST_P(CudaJoin, BranchesWriteWhereTheyAreJoined) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 20, 18});
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", x, 3, 64, 7));
  const Value a = g.add("a.relu", ReLU(), convolved(g, "a", stem, 64, 24, 1));
  const Value b = g.add("b.hard_swish", Op("HardSwish"), {convolved(g, "b", stem, 64, 72, 3)});
  const Value pooled = g.add("pooled", MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}), stem);
  const Value c = convolved(g, "c", pooled, 64, 40, 1);
  const Value joined = g.add("joined", Concat(1), {a, b, c, pooled});
  end(g, convolved(g, "head", joined, 200, 16, 3));
  expect_right(g, gpu(), 1);
}

/// Four layers that read everything before them, and what follows.
void dense_block(Graph& g, Value first, int channels) {
  std::vector<Value> features = {first};
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const Value joined = layer == 0 ? features[0] : g.add(name + ".joined", std::make_shared<Concat>(1), features);
    const Value scaled =
        g.add(name + ".relu", ReLU(), g.add(name + ".norm", BatchNorm2d({.channels = channels}), joined));
    const Value narrow = g.add(name + ".relu2", ReLU(), convolved(g, name + ".conv1", scaled, channels, 32, 1));
    features.push_back(convolved(g, name + ".conv2", narrow, 32, 16, 3));
    channels += 16;
  }
  const Value joined = g.add("joined", std::make_shared<Concat>(1), features);
  const Value scaled = g.add("relu", ReLU(), g.add("norm", BatchNorm2d({.channels = channels}), joined));
  end(g, convolved(g, "head", scaled, channels, 16, 1));
}

TEST_P(CudaJoin, ADenseBlockIsOneImage) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 24, 20});
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", x, 3, 48, 7));
  const Value first = convolved(g, "first", stem, 48, 48, 1);
  dense_block(g, g.add("pool", AvgPool2d({.kernel = 2, .stride = 2}), first), 48);
  expect_right(g, gpu(), 0);
}

/// As DenseNet begins: the first layer, which pools its map, writes into the block.
TEST_P(CudaJoin, ADenseBlockBehindTheFirstLayer) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 48, 40});
  const Value stem = g.add("stem", Conv2d({.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3}), x);
  dense_block(g, g.add("pool", MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}), g.add("stem.relu", ReLU(), stem)),
              64);
  expect_right(g, gpu(), 0);
}

/// As in ShuffleNet: what passes by, and what groups and odd numbers of channels leave to `mma`, of 4-byte slices.
TEST_P(CudaJoin, WhatIsMovedAndWhatMmaComputes) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 13, 11});
  const auto integer = [&](const std::string& name, std::int64_t value) {
    return g.add(name, Constant(Tensor::from(std::vector{value}, Shape{1})), std::initializer_list<Value>{});
  };
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", x, 3, 116, 3));
  const Value axis = integer("axis", 1);
  const auto half = [&](const std::string& name, std::int64_t first) {
    return g.add(name, Op("Slice"), {stem, integer(name + ".first", first), integer(name + ".last", first + 58), axis});
  };
  const Value a = half("a", 0), b = g.add("b.relu", ReLU(), convolved(g, "b", half("half", 58), 58, 58, 1));
  const Value c = g.add("c", Conv2d({.in = 116, .out = 116, .kernel = 3, .padding = 1, .groups = 29}), stem);
  end(g, convolved(g, "head", g.add("joined", Concat(1), {a, b, c}), 232, 16, 1));
  expect_right(g, gpu(), 0);
}

/// As in CSP and Res2Net. What is not finite is looked up again where it lies.
TEST_P(CudaJoin, HalvesAreConvolvedWhereTheyLie) {
  Graph g;
  const auto integer = [&](const std::string& name, std::int64_t value) {
    return g.add(name, Constant(Tensor::from(std::vector{value}, Shape{1})), std::initializer_list<Value>{});
  };
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", g.input("input", {batch, 3, 20, 18}), 3, 96, 3));
  const Value axis = integer("axis", 1);
  const auto half = [&](const std::string& name, std::int64_t first) {
    return g.add(name, Op("Slice"), {stem, integer(name + ".first", first), integer(name + ".last", first + 64), axis});
  };
  const Value a = convolved(g, "a", half("left", 0), 64, 48, 3), b = convolved(g, "b", half("right", 32), 64, 48, 1);
  end(g, g.add("product", Op("Mul"), {a, b}));
  expect_right(g, gpu(), 0);

  CompileOptions options = {
      .device = gpu(), .batch = images, .precision = Precision::fp16, .description = describe(gpu())};
  const std::string summary = g.plan_summary(options);
  if (options.description->wgmma) {
    EXPECT_EQ(summary.find("left"), std::string::npos) << summary;
  }
  Tensor x = test::random_tensor({images, 3, 20, 18}, 5);
  x.values<float>()[400] = std::numeric_limits<float>::infinity();
  const Tensor found = g.compile(options).run(x).clone();
  options.fuse = false;
  std::vector<test::Truth> truth;
  for (const double value : test::doubles(g.compile(options).run(x))) truth.push_back({value, 2e-2});
  test::expect_near(found, truth, summary);
}

// Channels that TMA cannot store to side by side: implicit_gemm could write them, but is slower, so they are copied.
TEST_P(CudaJoin, ChannelsOfNoRoundNumber) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 12, 12});
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", x, 3, 64, 3));
  const Value a = convolved(g, "a", stem, 64, 20, 1), b = convolved(g, "b", stem, 64, 32, 3);
  end(g, convolved(g, "head", g.add("joined", Concat(1), {a, b}), 52, 16, 1));
  expect_right(g, gpu(), 1);
}

// Rows with the channels last, of which a depthwise convolution takes some; 26 channels begin where its packs do not.
TEST_P(CudaJoin, ADepthwiseConvolutionOfSomeOfTheRows) {
  for (const auto& [kept, convolved, copied] : {std::tuple(40, 24, 0), std::tuple(38, 26, 2)}) {
    Graph g = test::gated_network(28, kept, convolved);
    expect_right(g, gpu(), copied);
  }
}

/// As in InceptionNeXt: some channels stay, others go through depthwise convolutions of several windows.
TEST_P(CudaJoin, DepthwiseConvolutionsOfPartsOfAnImage) {
  Graph g;
  const Value stem = g.add("stem.relu", ReLU(), convolved(g, "stem", g.input("input", {batch, 3, 40, 36}), 3, 96, 3));
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const auto one = [&](std::int64_t value) { return test::integers(g, {value}); };
    return test::op(g, "Slice", {stem, one(from), one(to), one(1)});
  };
  const auto depthwise = [&](const std::string& name, Value x, int kernel, int dilation) {
    return g.add(name,
                 Conv2d({.in = 16,
                         .out = 16,
                         .kernel = kernel,
                         .padding = kernel / 2 * dilation,
                         .dilation = dilation,
                         .groups = 16}),
                 x);
  };
  const Value a = depthwise("a", part(48, 64), 3, 1), b = depthwise("b", part(64, 80), 7, 1),
              c = depthwise("c", part(80, 96), 5, 2);
  const Value joined = g.add("joined", Concat(1), {g.add("kept", Op("Relu"), {part(0, 48)}), a, b, c});
  end(g, convolved(g, "head", joined, 96, 16, 1));
  expect_right(g, gpu(), 0);
}

}  // namespace
}  // namespace lamina::join_test
