#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lamina {

/// A fixed set of threads that share out the indices of a loop. Each Plan owns one; there is no global pool.
/// The thread that calls `parallel_for` works too, so a pool of one starts no thread at all.
class ThreadPool {
 public:
  /// Throws Error unless threads is 1 to 4096, and if the system has not as many; those started so far have ended then.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(index, worker) once for every index in [0, count), worker in [0, threads()), and returns when all are
  /// done. Each thread has a stretch of the indices, in order, and then takes what is left of the others', one index at
  /// a time: uneven ones balance, and loop after loop a thread works where its cache has what it wrote before. The
  /// first exception thrown stops the loop and is rethrown here. Allocates nothing. One loop at a time: not to be
  /// called from two threads at once.
  template <class Body>
  void parallel_for(std::int64_t count, const Body& body) {
    run({count, &body,
         [](const void* b, std::int64_t index, int worker) { (*static_cast<const Body*>(b))(index, worker); }});
  }

  /// The number of cores this process may run on, at least 1.
  static int default_threads();

 private:
  struct Loop {
    std::int64_t count = 0;
    const void* body = nullptr;
    void (*call)(const void* body, std::int64_t index, int worker) = nullptr;
  };

  /// A worker's stretch of a loop, on a cache line of its own: what one thread writes must not slow the others.
  struct alignas(64) Stretch {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  void run(const Loop& loop);
  void work(int worker);
  void wait_for_loops(int worker);
  void join();

  std::vector<std::thread> workers_;
  std::unique_ptr<Stretch[]> stretches_;  // by worker
  Loop loop_;
  // Each on a cache line of its own, as above.
  alignas(64) std::atomic<int> busy_{0};                  // workers that have not finished the current loop
  alignas(64) std::atomic<std::uint64_t> generation_{0};  // counts loops; a change is the signal to start
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace lamina
