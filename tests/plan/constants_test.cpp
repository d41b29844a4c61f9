// The store of what kernels only read: one copy for all plans, nodes and threads, counted to the byte.

#include "lamina/tensor/constants.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "lamina/graph/graph.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/op.h"
#include "lamina/tensor/matrices.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::constants_test {
namespace {

using detail::packed;
using detail::Packing;

/// Bytes of the heap that are in use; 0 where it cannot be asked.
std::size_t heap() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
#else
  return 0;
#endif
}

/// Every layer, norms that are folded, products with constants, weights in all precisions.
std::vector<Graph> networks() {
  std::vector<Graph> result;
  result.push_back(Graph::load(std::string(LAMINA_TEST_DATA) + "/golden/layers.safetensors"));
  Graph& g = result.emplace_back();
  Value x = g.input("x", {batch, 64, 14, 14});
  x = g.add("norm", BatchNorm2d({.channels = 64}), g.add("conv", Conv2d({.in = 64, .out = 64, .kernel = 3}), x));
  x = g.add("depthwise", Conv2d({.in = 64, .out = 64, .kernel = 3, .groups = 64}), g.add("relu", ReLU(), x));
  const Value matrix = g.add("matrix", Constant(random_tensor({6400, 96}, 5)), std::initializer_list<Value>{});
  x = g.add("fc", Linear({.in = 96, .out = 1000}), g.add("product", Op("MatMul"), {g.add(Flatten(), x), matrix}));
  g.output(x);
  randomize(g);
  for (float& v : const_cast<Tensor&>(g.find("norm")->module->parameters()[3].value).values<float>()) v = v * v + 1;
  return result;
}

TEST(Constants, ArePackedOnceForAllPlansOfAGraph) {
  for (const Graph& graph : networks()) {
    for (const CompileOptions& options :
         {CompileOptions{.threads = 1}, CompileOptions{.batch = 3, .linear_weights = DType::bf16, .threads = 1},
          CompileOptions{.precision = Precision::bf16, .threads = 1}, CompileOptions{.threads = 1, .fuse = false}}) {
      const auto run = [&](Plan& plan) {
        std::vector<Tensor> inputs, results;
        for (const Shape& shape : plan.input_shapes()) inputs.push_back(random_tensor(shape, 5));
        for (const Tensor& output : plan.run(inputs)) results.push_back(output.clone());
        return results;
      };
      std::optional<Plan> first = graph.compile(options);
      const std::vector<Tensor> expected = run(*first);
      const PlanMemory alone = first->memory(), known = graph.plan_memory(options);
      EXPECT_EQ(alone.shared, 0u);
      EXPECT_EQ(known.shared, known.parameters);
      EXPECT_EQ(known.total(), alone.total());
      const std::size_t before = heap();
      Plan second = graph.compile(options);
      const auto more = static_cast<std::int64_t>(heap() - before);
      const std::size_t steps = 5'000 * graph.nodes().size() + 20'000, runs = alone.activations + alone.workspace;
      EXPECT_LE(more, static_cast<std::int64_t>(runs + alone.parameters / 8 + steps));
      EXPECT_EQ(first->memory().shared, alone.parameters);
      EXPECT_EQ(second.memory().shared, alone.parameters);
      EXPECT_EQ(second.memory().total(), alone.total());
      first.reset();
      EXPECT_EQ(second.memory().shared, 0u);
      const std::vector<Tensor> found = run(second);
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same_bits(found[i], expected[i])) << i;
    }
    EXPECT_EQ(graph.plan_memory({.threads = 1}).shared, 0u);
  }
}

/// A chain of convolutions or of products, of one weight, or of as many that are equal.
Graph chain(bool convolutions, int nodes, bool copies) {
  Graph g;
  Value x = convolutions ? g.input("x", {batch, 32, 9, 9}) : g.input("x", {batch, 32});
  const Tensor weight = convolutions ? random_tensor({32, 32, 3, 3}, 1) : random_tensor({32, 32}, 1);
  for (int i = 0; i < nodes; ++i) {
    if (convolutions) {
      Conv2d conv({.in = 32, .out = 32, .kernel = 3, .padding = 1, .bias = false});
      conv.set_weight(copies ? weight.clone() : weight);
      x = g.add(std::move(conv), x);
    } else {
      const Value w =
          g.add("w" + std::to_string(i), Constant(copies ? weight.clone() : weight), std::initializer_list<Value>{});
      x = g.add("product" + std::to_string(i), Op("MatMul"), {x, w});
    }
  }
  g.output(x);
  return g;
}

TEST(Constants, AreCountedOnceForAllNodes) {
  for (const bool convolutions : {true, false}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const CompileOptions options = {.batch = 20, .precision = precision, .threads = 1};
      const std::size_t one = chain(convolutions, 1, false).plan_memory(options).parameters;
      EXPECT_GE(one, convolutions ? 18'432u : 2'048u);
      for (const bool copies : {false, true}) {
        const Graph several = chain(convolutions, 5, copies);
        EXPECT_EQ(several.plan_memory(options).parameters, one) << convolutions << name(precision) << copies;
        EXPECT_EQ(several.compile(options).memory().parameters, one) << convolutions << name(precision) << copies;
      }
    }
  }
}

TEST(Constants, OfOneTensorPackedDifferentlyAreApart) {
  const Tensor weight = random_tensor({32, 16, 3, 3}, 1);
  std::vector<Plan> plans;  // all alive
  for (const Conv2dOptions& o : {Conv2dOptions{.in = 16, .out = 32, .kernel = 3},
                                 {.in = 32, .out = 32, .kernel = 3, .groups = 2},
                                 {.in = 144, .out = 32, .kernel = 1},
                                 {.in = 48, .out = 32, .kernel = {1, 3}},
                                 {.in = 48, .out = 32, .kernel = {3, 1}},
                                 {.in = 16, .out = 32, .kernel = 3, .stride = 2}}) {
    Conv2dOptions options = o;
    options.bias = false;
    Conv2d conv(options);
    conv.set_weight(weight.view(conv.parameters()[0].shape));
    Graph g;
    g.output(g.add("conv", conv, g.input("x", {batch, options.in, 20, 20})));
    const Tensor x = random_tensor({1, options.in, 20, 20}, 2);
    const Tensor expected = g.compile({.threads = 1, .algorithm = "direct"}).run(x).clone();
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      plans.push_back(g.compile({.precision = precision, .threads = 1}));
      EXPECT_LT(relative_error(plans.back().run(x), expected), precision == Precision::fp32 ? 1e-5 : 1e-2);
    }
  }
}

TEST(Constants, FollowWeightsThatChange) {
  Graph g = chain(true, 1, false);
  const Tensor x = random_tensor({1, 32, 9, 9}, 3);
  Plan old = g.compile({.threads = 1});
  const Tensor before = old.run(x).clone();
  Tensor weight = g.nodes()[1].module->parameters()[0].value;
  for (const bool in_place : {true, false}) {
    if (!in_place) g.nodes()[1].module->set_parameter("weight", weight = weight.clone());
    for (float& value : weight.values<float>()) value *= 2;
    Plan changed = g.compile({.threads = 1});
    EXPECT_LT(relative_error(changed.run(x), g.compile({.threads = 1, .algorithm = "direct"}).run(x)), 1e-5);
    EXPECT_TRUE(same_bits(old.run(x), before));
  }
}

TEST(Constants, AreOneForThreadsThatAskAtOnce) {
  const Tensor source = random_tensor({3000}, 1);
  Tensor other = source.clone();
  other.values<float>()[2999] += 1;  // which begins alike
  std::atomic<int> times = 0;
  for (int round = 1; round <= 3; ++round) {  // each time anew, when nobody has it any more
    std::vector<Tensor> results(8);
    in_threads(8, [&](std::size_t t) {
      const auto pack = [&](Tensor& to) {
        if (++times == 1) throw Error("once");
        std::this_thread::yield();
        to.copy_from(source);
      };
      const auto ask = [&] { results[t] = packed(Packing("test", 7), {source}, {3000}, DType::f32, pack); };
      try {
        ask();
      } catch (const Error&) {
        ask();
      }
    });
    for (const Tensor& result : results) EXPECT_EQ(result.raw(), results[0].raw());
    const auto from = [](const Tensor& tensor) { return [&](Tensor& to) { to.copy_from(tensor); }; };
    EXPECT_EQ(packed(Packing("test", 7), {source.clone()}, {3000}, DType::f32, from(source)).raw(), results[0].raw());
    EXPECT_EQ(packed(Packing("other", 8), {source}, {3000}, DType::f32, from(source)).raw(), results[0].raw());
    EXPECT_NE(packed(Packing("test", 7), {other}, {3000}, DType::f32, from(other)).raw(), results[0].raw());
    EXPECT_NE(packed(Packing("test", 7), {source}, {2999}, DType::f32,
                     [&](Tensor& to) { std::copy_n(source.values<float>().data(), 2999, to.values<float>().data()); })
                  .raw(),
              results[0].raw());
  }
}

/// What compiling derives from weights is there for the next size as long as somebody keeps it, and is made anew then.
TEST(Constants, WhatIsDerivedStaysWhereThereIsRoom) {
  const Tensor source = random_tensor({16, 8}, 1);
  int made = 0;
  const auto kept_of = [&](std::size_t room) {
    detail::PlanConstants plan;
    plan.keep_derived(room);
    (void)detail::derived(detail::Packing("made here"), {source}, {8, 16}, DType::f32, [&](Tensor& to) {
      ++made;
      to = detail::transposed(source);
    });
    return plan.kept_derived();
  };
  // What was packed in no way before is not looked for, so its source is hashed from the second time on.
  auto first = kept_of(source.bytes()), second = kept_of(source.bytes());
  EXPECT_EQ(second.size(), 1u);
  const int before = made;
  (void)kept_of(0);
  EXPECT_EQ(made, before) << "it was kept";
  first.clear(), second.clear();
  EXPECT_EQ(kept_of(source.bytes() - 1).size(), 0u);
  EXPECT_EQ(made, before + 1) << "nobody kept it";
}

/// Rows times factors are rounded once; one that is not finite is said each time.
TEST(Constants, RowsTimesFactors) {
  Tensor weight({3, 1000});
  std::ranges::fill(weight.values<float>(), 3.0f);
  const double factors[] = {1.0 / 3, -2, 0};
  const Tensor scaled = detail::scaled_rows(weight, factors);
  ASSERT_TRUE(scaled.defined());
  for (std::size_t i = 0; i < 3000; ++i)
    ASSERT_EQ(scaled.values<float>()[i], static_cast<float>(3 * factors[i / 1000]));
  const double far[] = {1, 1e39, 1};
  for (int turn = 0; turn < 2; ++turn) EXPECT_FALSE(detail::scaled_rows(weight, far).defined());
  EXPECT_EQ(weight.values<float>()[0], 3.0f);
}

TEST(Constants, MatricesAreTurnedWhateverTheirElements) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 300}, {300, 17}, {5, 1}}) {
    for (const DType type : {DType::i8, DType::f16, DType::f32, DType::f64}) {
      Tensor matrix({rows, columns}, type);
      auto* const bytes = static_cast<unsigned char*>(matrix.raw());
      for (std::size_t i = 0; i < matrix.bytes(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + i / 251);
      const Tensor turned = detail::transposed(matrix);
      ASSERT_EQ(turned.shape(), Shape({columns, rows}));
      const std::size_t size = size_of(type);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto* from =
              static_cast<const std::byte*>(matrix.raw()) + static_cast<std::size_t>(r * columns + c) * size;
          const auto* to = static_cast<const std::byte*>(turned.raw()) + static_cast<std::size_t>(c * rows + r) * size;
          ASSERT_EQ(std::memcmp(from, to, size), 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::constants_test
