#pragma once

#include <cstdint>
#include <memory>

#include "lamina/base/export.h"

namespace lamina {

/// A fixed set of threads that share out the indices of a loop. Each Plan on a CPU has one of its own, unless
/// `CompileOptions::pool` gives it one that several share; there is no global pool. The thread that calls
/// `parallel_for` works too, so a pool of one starts no thread at all. Threads that have had nothing to do for some
/// 50 µs sleep.
///
/// A forked child has none of the threads: there a pool of more than one throws Error when it is used.
class LAMINA_API ThreadPool {
 public:
  /// Throws Error unless threads is 1 to 4096, and if the system has not as many; those started so far have ended then.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(index, worker) once for every index in [0, count), worker in [0, threads()), and returns when all are
  /// done. Each thread has a stretch of the indices, in order, and then takes what is left of the others', one index at
  /// a time: uneven ones balance, and loop after loop a thread works where its cache has what it wrote before. The
  /// first exception thrown stops the loop and is rethrown here. Allocates nothing. Loops of several threads run one
  /// after the other, unless the pool is one of a single thread; a loop inside a loop is not possible.
  template <class Body>
  void parallel_for(std::int64_t count, const Body& body) {
    run({count, &body,
         [](const void* b, std::int64_t index, int worker) { (*static_cast<const Body*>(b))(index, worker); }});
  }

  /// While one lives, the pool is its thread's alone: others wait, and get it in the order in which they asked. A run
  /// of a Plan takes one, so plans that share a pool run one at a time, each on all threads. A pool of a single thread
  /// is nobody's. Throws Error where this thread has a turn already, and in a forked child.
  class LAMINA_API Turn {
   public:
    explicit Turn(ThreadPool& pool);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ThreadPool& pool_;
  };

  /// The number of threads that this process may run at once, at least 1: the cores that it may run on (its affinity)
  /// or, if they are fewer, the processors' time that its control groups allow it, rounded down, as threads of a plan
  /// wait for each other.
  static int default_threads();

 private:
  struct Loop {
    std::int64_t count = 0;
    const void* body = nullptr;
    void (*call)(const void* body, std::int64_t index, int worker) = nullptr;
  };
  struct Team;

  void run(const Loop& loop);

  int threads_;
  std::unique_ptr<Team> team_;  // none for a single thread
};

}  // namespace lamina
