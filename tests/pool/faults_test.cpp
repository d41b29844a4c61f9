// Pools in which something fails in the middle.

#include <set>

#include "lamina/pool/plan_pool.h"
#include "pool/gate.h"
#include "support/file_test.h"
#include "support/scarce.h"

namespace lamina::test::faults_test {
namespace {

Tensor ones(std::int64_t images, float value = 1) {
  Tensor tensor({images, 4});
  for (float& v : tensor.values<float>()) v = value;
  return tensor;
}

/// How often each request was answered, and with what.
struct Answers {
  explicit Answers(std::size_t count) : errors(count), times(count) {}

  PlanPool::Callback at(std::size_t i) {
    return [this, i](PoolAnswer answer) {
      const std::scoped_lock lock(mutex);
      ++times[i];
      errors[i] = answer.error;
      if (answer.error.empty() && answer.outputs.at(0).values<float>()[0] != 1) errors[i] = "wrong";
    };
  }
  std::size_t failed() const {
    return errors.size() - static_cast<std::size_t>(std::count(errors.begin(), errors.end(), ""));
  }

  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<int> times;
};

/// A device breaks for good in the third batch of one of the plans: that plan's thread is the device.
TEST(PoolFaults, TheOthersDoTheShareOfADeviceThatBreaks) {
  std::mutex mutex;
  std::thread::id broken;
  std::map<std::thread::id, int> runs;
  const Graph graph = meddled_network([&](const Tensor&) {
    const std::scoped_lock lock(mutex);
    const auto self = std::this_thread::get_id();
    if (++runs[self] == 3 && broken == std::thread::id()) broken = self;
    if (self == broken) throw Error("this device is lost");
  });
  constexpr std::size_t requests = 300;
  Answers answers(requests);
  {
    PlanPool pool(graph, {.batch = 4, .threads = 1}, {.plans_per_device = 3});
    for (std::size_t i = 0; i < requests; ++i) pool.submit({ones(1 + i % 3)}, answers.at(i));
    pool.close();
    std::size_t lost = 0;
    for (const PoolWorker& worker : pool.workers()) lost += worker.lost.empty() ? 0 : 1;
    EXPECT_EQ(lost, 1u);
  }
  EXPECT_EQ(answers.failed(), 0u);
  for (const int times : answers.times) EXPECT_EQ(times, 1);
}

TEST(PoolFaults, WhenAllAreLostEachAnswerSaysWhy) {
  std::atomic<bool> broken = false;
  Gate gate;
  const Graph graph = meddled_network([&](const Tensor&) {
    gate.pass();
    if (broken) throw Error("this device is lost");
  });
  Answers answers(40);
  PlanPool pool(graph, {.batch = 4, .threads = 1}, {.plans_per_device = 2});
  for (std::size_t i = 0; i < 40; ++i) pool.submit({ones(1)}, answers.at(i));
  gate.await(2);
  broken = true;
  gate.open();
  // Until both have left.
  while (pool.workers()[0].lost.empty() || pool.workers()[1].lost.empty()) std::this_thread::yield();
  pool.close();
  EXPECT_EQ(answers.failed(), 40u);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(answers.times[i], 1);
    EXPECT_NE(answers.errors[i].find("cpu: m: this device is lost"), std::string::npos) << answers.errors[i];
  }
  expect_error([&] { (void)pool.submit({ones(1)}); }, {"no device is left", "cpu: m: this device is lost"});
}

TEST(PoolFaults, OneRequestThatFailsLeavesItsBatchAndTheDeviceAlone) {
  const Graph graph = meddled_network([](const Tensor& x) {
    for (const float v : x.values<float>()) {
      if (std::isnan(v)) throw Error("this input is poison");
    }
  });
  constexpr std::size_t requests = 64;
  Answers answers(requests);
  PlanPool pool(graph, {.batch = 8, .threads = 1}, {.plans_per_device = 2, .max_delay = std::chrono::milliseconds(1)});
  const auto poisoned = [](std::size_t i) { return i % 11 == 5; };
  for (std::size_t i = 0; i < requests; ++i) pool.submit({ones(1, poisoned(i) ? NAN : 1)}, answers.at(i));
  pool.close();
  for (std::size_t i = 0; i < requests; ++i) {
    EXPECT_EQ(answers.times[i], 1);
    EXPECT_EQ(answers.errors[i], poisoned(i) ? "cpu: m: this input is poison" : "") << i;
  }
  for (const PoolWorker& worker : pool.workers()) EXPECT_EQ(worker.lost, "");
}

TEST(PoolFaults, AFailureThatPassesIsRedone) {
  std::atomic<int> runs = 0;
  const Graph graph = meddled_network([&](const Tensor&) {
    if (runs++ == 0) throw std::bad_alloc();
  });
  PlanPool pool(graph, {.batch = 2, .threads = 1});
  EXPECT_EQ(pool.submit({ones(2)}).get()[0].values<float>()[7], 1);
  EXPECT_EQ(pool.workers()[0].lost, "");
}

TEST(PoolFaults, AForkedChildIsToldThatNobodyAnswers) {
  LAMINA_SKIP_FORKS_UNDER_TSAN();
  const Graph graph = meddled_network([](const Tensor&) {});  // whose module the plans' operators ask
  auto pool = std::make_unique<PlanPool>(graph);
  (void)pool->submit({ones(1)}).get();
  expect_in_child([&] {
    bool told = false;
    try {
      (void)pool->submit({ones(1)});
    } catch (const Error& error) {
      told = std::string_view(error.what()).starts_with("pool: made before this process was forked");
    }
    pool.reset();
    return told;
  });
  EXPECT_EQ(pool->submit({ones(1)}).get()[0].values<float>()[0], 1);
}

}  // namespace
}  // namespace lamina::test::faults_test
