// Plans and threads: one Plan for each is right, one for two is an Error, never a wrong answer. Plans that share
// threads, and plans in a forked child.

#include <chrono>
#include <optional>

#include "lamina/base/thread_pool.h"
#include "lamina/graph/graph.h"
#include "lamina/layers/elementwise.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/scarce.h"

namespace lamina::test::threads_test {
namespace {

TEST(PlanThreads, EightPlansInEightThreads) {
  const Graph graph = branching_network();
  std::vector<Tensor> inputs, expected;
  Plan alone = graph.compile({.threads = 1});
  for (unsigned t = 0; t < 8; ++t) {
    inputs.push_back(random_tensor({1, 3, 16, 16}, t));
    expected.push_back(alone.run({&inputs[t], 1})[0].clone());
  }
  std::atomic<int> wrong = 0;
  in_threads(8, [&](std::size_t t) {
    // Plans for the others' inputs too, in turn.
    std::vector<Plan> plans;
    for (int i = 0; i < 8; ++i) plans.push_back(graph.compile({.threads = 1 + i % 3}));
    for (std::size_t i = 0; i < 80; ++i) {
      const std::size_t which = (t + i) % 8;
      if (!same_bits(plans[i % 8].run({&inputs[which], 1})[0], expected[which])) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(PlanThreads, EightPlansOfEveryLayer) {
  const Graph graph = Graph::load(std::string(LAMINA_TEST_DATA) + "/golden/layers.safetensors");
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    std::atomic<int> wrong = 0;
    in_threads(8, [&](std::size_t) {
      Plan plan = graph.compile({.batch = 3, .precision = precision, .threads = 2});
      std::vector<Tensor> inputs, first;
      for (const Shape& shape : plan.input_shapes()) inputs.push_back(random_tensor(shape, 5));
      for (const Tensor& output : plan.run(inputs)) first.push_back(output.clone());
      for (int run = 0; run < 10; ++run) {
        const auto outputs = plan.run(inputs);
        for (std::size_t i = 0; i < first.size(); ++i) wrong += same_bits(outputs[i], first[i]) ? 0 : 1;
      }
    });
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
  in_threads(2, [&](std::size_t t) {
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
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(refused, 100);
  EXPECT_NE(message.find("two threads use one Plan"), std::string::npos) << message;
  // It is as good as before.
  EXPECT_TRUE(same_bits(plan.run({&inputs[1], 1})[0], expected[1]));
}

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
    meddler->meanwhile = [&](const Tensor&) {
      expect_error(call, {"two threads use one Plan"});
      ++refused;
    };
    (void)plan.run(input);
    EXPECT_EQ(refused, 1);
    meddler->meanwhile = nullptr;
    EXPECT_NO_THROW(call());  // free again
  }
  // An Error in the middle of a run frees it too.
  meddler->meanwhile = [](const Tensor&) { throw Error("in the middle"); };
  expect_error([&] { (void)plan.run(input); }, {"in the middle"});
  meddler->meanwhile = nullptr;
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

TEST(PlanSharedPool, HasThePlansBits) {
  const Graph graph = branching_network();
  const auto shared = std::make_shared<ThreadPool>(3);
  std::vector<Tensor> inputs, expected;
  Plan alone = graph.compile({.threads = 1});
  for (unsigned t = 0; t < 4; ++t) {
    inputs.push_back(random_tensor({1, 3, 16, 16}, t));
    expected.push_back(alone.run({&inputs[t], 1})[0].clone());
  }
  std::atomic<int> wrong = 0;
  in_threads(4, [&](std::size_t t) {
    Plan plan = graph.compile({.pool = shared});
    if (plan.options().threads != 3) ++wrong;
    for (std::size_t i = 0; i < 60; ++i) {
      const std::size_t which = (t + i) % 4;
      if (!same_bits(plan.run({&inputs[which], 1})[0], expected[which])) ++wrong;
      if (i % 20 == 0) (void)plan.profile({&inputs[which], 1}, 2);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(shared.use_count(), 1);  // plans let go of it
}

TEST(PlanSharedPool, OutlivesWhoeverMadeIt) {
  const Graph graph = branching_network();
  const Tensor input = random_tensor({1, 3, 16, 16}, 1);
  Plan plan = graph.compile({.pool = std::make_shared<ThreadPool>(2)});
  Plan alone = graph.compile({.threads = 1});
  EXPECT_TRUE(same_bits(plan.run({&input, 1})[0], alone.run({&input, 1})[0]));
}

TEST(PlanSharedPool, SaysHowManyThreads) {
  const Graph graph = branching_network();
  const auto shared = std::make_shared<ThreadPool>(2);
  EXPECT_EQ(graph.compile({.threads = 2, .pool = shared}).options().threads, 2);
  expect_error([&] { (void)graph.compile({.threads = 4, .pool = shared}); }, {"compile", "threads of 0 or 2", "got 4"});
}

TEST(PlanSharedPool, AForkedChildIsToldToCompileItself) {
  LAMINA_SKIP_FORKS_UNDER_TSAN();
  const Graph graph = branching_network();
  const Tensor input = random_tensor({1, 3, 16, 16}, 1);
  Plan single = graph.compile({.threads = 1});
  const Tensor expected = single.run({&input, 1})[0].clone();
  std::optional<Plan> plan = graph.compile({.threads = 3});
  EXPECT_TRUE(same_bits(plan->run({&input, 1})[0], expected));
  expect_in_child([&] {
    bool told = false;
    try {
      (void)plan->run({&input, 1});
    } catch (const Error& error) {
      told = std::string_view(error.what()).find("the process was forked") != std::string_view::npos;
    }
    plan.reset();
    Plan own = graph.compile({.threads = 2});
    // One of a single thread has nothing that the child lacks.
    return told && same_bits(own.run({&input, 1})[0], expected) && same_bits(single.run({&input, 1})[0], expected);
  });
  EXPECT_TRUE(same_bits(plan->run({&input, 1})[0], expected));
}

}  // namespace
}  // namespace lamina::test::threads_test
