#include "lamina/base/thread_pool.h"

#include <sched.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support/file_test.h"
#include "support/scarce.h"

namespace lamina::cpu::thread_pool_test {
namespace {

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      pool.parallel_for(count, [&](std::int64_t i, int worker) {
        ++calls[static_cast<std::size_t>(i)];
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
      });
      for (const auto& n : calls) EXPECT_EQ(n, 1);
    }
  }
}

TEST(ThreadPool, TakesOverWhatASlowThreadHasLeft) {
  ThreadPool pool(2);
  for (const std::int64_t slow : {0, 5, 9}) {
    std::atomic<int> others = 0;
    pool.parallel_for(10, [&](std::int64_t i, int) {
      if (i != slow) {
        ++others;
        return;
      }
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (others < 9 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
      EXPECT_EQ(others, 9);
    });
  }
}

TEST(ThreadPool, ManyShortLoopsInARow) {
  ThreadPool pool(4);
  std::atomic<std::int64_t> sum = 0;
  for (int round = 0; round < 2000; ++round) {
    pool.parallel_for(5, [&](std::int64_t i, int) { sum += i; });
  }
  EXPECT_EQ(sum, 2000 * 10);
}

TEST(ThreadPool, WorksAfterItsThreadsFellAsleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls = 0;
    pool.parallel_for(10, [&](std::int64_t, int) { ++calls; });
    EXPECT_EQ(calls, 10);
  }
}

TEST(ThreadPool, AWorkerNumberIsNeverUsedTwiceAtOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  pool.parallel_for(400, [&](std::int64_t, int worker) {
    EXPECT_EQ(inside[static_cast<std::size_t>(worker)]++, 0);
    --inside[static_cast<std::size_t>(worker)];
  });
}

TEST(ThreadPool, PassesOnTheFirstException) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    const auto loop = [&] {
      pool.parallel_for(100, [](std::int64_t i, int) {
        if (i == 13) throw std::runtime_error("thirteen");
      });
    };
    EXPECT_THROW(loop(), std::runtime_error);
    std::atomic<int> calls = 0;
    pool.parallel_for(10, [&](std::int64_t, int) { ++calls; });
    EXPECT_EQ(calls, 10);
  }
}

TEST(ThreadPool, LoopsOfSeveralThreadsRunOneAfterTheOther) {
  ThreadPool pool(3);
  std::atomic<int> inside = 0, wrong = 0, calls = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 200; ++round) {
        const ThreadPool::Turn turn(pool);  // of two loops
        if (inside++ != 0) ++wrong;
        for (int loop = 0; loop < 2; ++loop) pool.parallel_for(7, [&](std::int64_t, int) { ++calls; });
        --inside;
      }
      // Without a turn of its own each loop takes one.
      for (int round = 0; round < 200; ++round) pool.parallel_for(caller + 2, [&](std::int64_t, int) { ++calls; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(calls, 4 * 200 * 14 + 200 * (2 + 3 + 4 + 5));
}

TEST(ThreadPool, ATurnInsideATurnIsAnErrorAndNotAHang) {
  ThreadPool pool(2);
  {
    const ThreadPool::Turn turn(pool);
    test::expect_error([&] { const ThreadPool::Turn another(pool); }, {"threads", "a pool of its own"});
  }
  EXPECT_NO_THROW(ThreadPool::Turn{pool});
}

TEST(ThreadPool, TakesNoTimeWhenItIsIdle) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  ThreadPool pool(4);
  pool.parallel_for(100, [](std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // threads look for more before they sleep
  const auto before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(used() - before, std::chrono::milliseconds(20));
}

TEST(ThreadPool, AForkedChildIsToldThatItHasNoThreads) {
  LAMINA_SKIP_FORKS_UNDER_TSAN();
  for (const bool in_a_run : {false, true}) {
    auto pool = std::make_unique<ThreadPool>(3);
    pool->parallel_for(10, [](std::int64_t, int) {});
    std::optional<ThreadPool::Turn> turn;
    if (in_a_run) turn.emplace(*pool);
    test::expect_in_child([&] {
      const auto refused = [](const auto& use) {
        try {
          use();
        } catch (const Error& error) {
          return std::string_view(error.what()).starts_with("threads: the process was forked since 3 threads");
        }
        return false;
      };
      const bool told = refused([&] { pool->parallel_for(10, [](std::int64_t, int) {}); }) &&
                        refused([&] { const ThreadPool::Turn another(*pool); });
      pool.reset();
      ThreadPool fresh(2);
      std::atomic<int> calls = 0;
      fresh.parallel_for(10, [&](std::int64_t, int) { ++calls; });
      return told && calls == 10;
    });
    turn.reset();
    std::atomic<int> calls = 0;
    pool->parallel_for(10, [&](std::int64_t, int) { ++calls; });
    EXPECT_EQ(calls, 10);  // the parent's goes on
  }
}

TEST(ThreadPool, TakesNoMoreThreadsThanItMayUse) {
  // On one of the cores that there are.
  test::expect_in_child([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0 && ThreadPool::default_threads() == 1;
  });
}

TEST(ThreadPool, RefusesNoThreads) {
  test::expect_error([] { ThreadPool pool(0); }, {"threads", "got 0"});
  EXPECT_GE(ThreadPool::default_threads(), 1);
}

TEST(ThreadPool, TooManyThreadsAreAnErrorNeitherAHangNorAnAbort) {
  LAMINA_SKIP_UNDER_SANITIZERS();
  for (int round = 0; round < 5; ++round) {
    test::expect_in_scarcity(rlim_t{40} << 20, [] {  // the stack of a thread takes 8 MiB
      try {
        ThreadPool pool(64);
      } catch (const Error& error) {
        const std::string_view message = error.what();
        // What was taken is given back: a smaller pool works after it.
        ThreadPool pool(2);
        std::atomic<int> calls = 0;
        pool.parallel_for(10, [&](std::int64_t, int) { ++calls; });
        return calls == 10 && message.starts_with("threads: could not start thread ") &&
               message.find(" of 64: ") != std::string_view::npos && message.ends_with("; ask for fewer threads");
      }
      return false;
    });
  }
}

}  // namespace
}  // namespace lamina::cpu::thread_pool_test
