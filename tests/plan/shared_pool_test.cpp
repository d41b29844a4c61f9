// Plans that share threads, and plans in a forked child.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lamina/base/thread_pool.h"
#include "lamina/graph/graph.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/scarce.h"

namespace lamina {
namespace {

using test::branching_network;
using test::expect_error;
using test::random_tensor;
using test::same_bits;

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
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Plan plan = graph.compile({.pool = shared});
      if (plan.options().threads != 3) ++wrong;
      for (std::size_t i = 0; i < 60; ++i) {
        const std::size_t which = (t + i) % 4;
        if (!same_bits(plan.run({&inputs[which], 1})[0], expected[which])) ++wrong;
        if (i % 20 == 0) (void)plan.profile({&inputs[which], 1}, 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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
  test::expect_in_child([&] {
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
}  // namespace lamina
