// Plans and threads: one Plan for each is right, one for two is an Error, never a wrong answer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "lamina/graph/graph.h"
#include "lamina/layers/elementwise.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina {
namespace {

using test::branching_network;
using test::expect_error;
using test::random_tensor;
using test::same_bits;
using test::small_network;

TEST(PlanThreads, EightPlansInEightThreads) {
  const Graph graph = branching_network();
  std::vector<Tensor> inputs, expected;
  Plan alone = graph.compile({.threads = 1});
  for (unsigned t = 0; t < 8; ++t) {
    inputs.push_back(random_tensor({1, 3, 16, 16}, t));
    expected.push_back(alone.run({&inputs[t], 1})[0].clone());
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      // Plans for the others' inputs too, in turn.
      std::vector<Plan> plans;
      for (int i = 0; i < 8; ++i) plans.push_back(graph.compile({.threads = 1 + i % 3}));
      for (std::size_t i = 0; i < 80; ++i) {
        const std::size_t which = (t + i) % 8;
        if (!same_bits(plans[i % 8].run({&inputs[which], 1})[0], expected[which])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PlanThreads, EightPlansOfEveryLayer) {
  const Graph graph = Graph::load(std::string(LAMINA_TEST_DATA) + "/golden/layers.safetensors");
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        Plan plan = graph.compile({.batch = 3, .precision = precision, .threads = 2});
        std::vector<Tensor> inputs, first;
        for (const Shape& shape : plan.input_shapes()) inputs.push_back(random_tensor(shape, 5));
        for (const Tensor& output : plan.run(inputs)) first.push_back(output.clone());
        for (int run = 0; run < 10; ++run) {
          const auto outputs = plan.run(inputs);
          for (std::size_t i = 0; i < first.size(); ++i) wrong += same_bits(outputs[i], first[i]) ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(PlanThreads, OnePlanInTwoIsAnError) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.batch = 4, .threads = 1});
  std::vector<Tensor> inputs, expected;
  for (unsigned t = 0; t < 2; ++t) {
    inputs.push_back(random_tensor({4, 3, 16, 16}, 40 + t));
    expected.push_back(plan.run({&inputs[t], 1})[0].clone());
  }
  const std::vector<Shape> shapes(plan.output_shapes().begin(), plan.output_shapes().end());
  std::atomic<int> wrong = 0, refused = 0;
  std::string message;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> results;
      for (const Shape& shape : shapes) results.emplace_back(shape);
      // Until they met, with a limit for a machine that never lets them.
      while (refused < 100 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
        try {
          plan.run_into({&inputs[t], 1}, results);
          if (!same_bits(results[0], expected[t])) ++wrong;
        } catch (const Error& error) {
          if (refused++ == 0) message = error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(refused, 100);
  EXPECT_NE(message.find("two threads use one Plan"), std::string::npos) << message;
  // It is as good as before.
  EXPECT_TRUE(same_bits(plan.run({&inputs[1], 1})[0], expected[1]));
}

/// While a Plan runs, in the middle of it, calls another member.
class Meddler : public Module {
 public:
  std::function<void()> meddle;

  std::string_view op() const override { return "meddler"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation&) const override { return true; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override {
    struct Meddling : Operator {
      const Meddler* module;
      explicit Meddling(const Meddler* m) : module(m) {}
      void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution&) const override {
        outputs[0].copy_from(inputs[0]);
        if (module->meddle) module->meddle();
      }
      std::string description() const override { return "meddles"; }
    };
    return std::make_unique<Meddling>(this);
  }
};

TEST(PlanThreads, EveryMemberThatUsesItAsks) {
  auto meddler = std::make_shared<Meddler>();
  Graph graph;
  const Value x = graph.input("x", {1, 4});
  graph.output(graph.add("m", meddler, {&x, 1}));
  Plan plan = graph.compile({.keep_all = true});
  const Tensor input = random_tensor({1, 4}, 1);
  Tensor target({1, 4});
  const std::function<void()> calls[] = {
      [&] { (void)plan.run(input); },
      [&] { (void)plan.run(std::span<const Tensor>(&input, 1)); },
      [&] {
        plan.run({{"x", input}});
      },
      [&] {
        plan.run_into({&input, 1}, {&target, 1});
      },
      [&] {
        (void)plan.profile({&input, 1}, 1);
      },
      [&] { (void)plan.output("m"); },
      [&] { (void)plan.activation("m"); },
  };
  for (const auto& call : calls) {
    int refused = 0;
    meddler->meddle = [&] {
      expect_error(call, {"two threads use one Plan"});
      ++refused;
    };
    (void)plan.run(input);
    EXPECT_EQ(refused, 1);
    meddler->meddle = nullptr;
    EXPECT_NO_THROW(call());  // free again
  }
  // An Error in the middle of a run frees it too.
  meddler->meddle = [] { throw Error("in the middle"); };
  expect_error([&] { (void)plan.run(input); }, {"in the middle"});
  meddler->meddle = nullptr;
  EXPECT_TRUE(same_bits(plan.run(input), input));
}

TEST(PlanThreads, AMovedFromPlanIsAnError) {
  const Graph graph = small_network();
  Plan plan = graph.compile({.threads = 1});
  const Tensor input = random_tensor(plan.input_shapes()[0], 1);
  Tensor target(plan.output_shapes()[0]);
  Plan moved = std::move(plan);
  const auto expect = [](const std::function<void()>& call) { expect_error(call, {"moved from"}); };
  expect([&] { (void)plan.run(input); });
  expect([&] { (void)plan.run(std::span<const Tensor>(&input, 1)); });
  expect([&] { plan.run({{"x", input}}); });
  expect([&] { plan.run_into({&input, 1}, {&target, 1}); });
  expect([&] { (void)plan.profile({&input, 1}); });
  expect([&] { (void)plan.input_names(); });
  expect([&] { (void)plan.output_names(); });
  expect([&] { (void)plan.input_shapes(); });
  expect([&] { (void)plan.input_dtypes(); });
  expect([&] { (void)plan.output_shapes(); });
  expect([&] { (void)plan.output_dtypes(); });
  expect([&] { (void)plan.output("x"); });
  expect([&] { (void)plan.activation("x"); });
  expect([&] { (void)plan.options(); });
  expect([&] { (void)plan.memory(); });
  expect([&] { (void)plan.summary(); });
  EXPECT_NO_THROW((void)moved.run(input));
  plan = std::move(moved);
  EXPECT_NO_THROW((void)plan.run(input));
}

}  // namespace
}  // namespace lamina
