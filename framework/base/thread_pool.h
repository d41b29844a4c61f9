#pragma once

#include <cstdint>
#include <memory>

#include "lamina/base/export.h"

namespace lamina {

/// A fixed set of threads that divide the indices of a loop. Each Plan on a CPU has its own pool, unless
/// `CompileOptions::pool` gives it one that several plans share; there is no global pool. The thread that calls
/// `parallel_for` works too, so a pool of one starts no thread. A thread sleeps when it has had nothing to do for some
/// 50 µs.
///
/// A forked child has none of these threads. There a pool of more than one thread throws Error when it is used.
class LAMINA_API ThreadPool {
 public:
  /// Throws Error unless threads is 1 to 4096. Also throws Error if the system cannot start so many; those that were
  /// started have then ended.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(index, worker) once for every index in [0, count), with worker in [0, threads()). It returns when all
  /// are done. Each thread first takes its own range of indices, in order; then it takes what is left of the others'
  /// ranges, one index at a time. So uneven work is balanced, and in each loop a thread works on data that are still in
  /// its cache. The first exception stops the loop, and is rethrown here. Nothing is allocated. Loops of several
  /// threads run one after the other, unless the pool has a single thread. A loop inside a loop is not possible.
  template <class Body>
  void parallel_for(std::int64_t count, const Body& body) {
    run({count, &body,
         [](const void* b, std::int64_t index, int worker) { (*static_cast<const Body*>(b))(index, worker); }});
  }

  /// While a Turn lives, its thread alone has the pool. Others wait, and get the pool in the order in which they asked.
  /// A run of a Plan takes a Turn, so plans that share a pool run one at a time, each on all threads. A pool of a
  /// single thread needs no Turn. Throws Error if this thread has a Turn already, and in a forked child.
  class LAMINA_API Turn {
   public:
    explicit Turn(ThreadPool& pool);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ThreadPool& pool_;
  };

  /// The number of threads that this process may run at once, at least 1. It is the smaller of two numbers: the cores
  /// on which it may run (its affinity), and the processor time that its control groups allow, rounded down, because
  /// threads of a plan wait for each other.
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
