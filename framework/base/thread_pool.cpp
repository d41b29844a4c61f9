#include "lamina/base/thread_pool.h"

#include <exception>
#include <utility>

#include "lamina/base/error.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace lamina {
namespace {

// Layers follow each other within microseconds and waking a sleeping thread costs tens of them, so waiters look
// this many times before they sleep (about 20 to 50 µs).
constexpr int spins = 2000;

// Twice what the largest machines have; a slip of the keyboard is not to take all the system's threads.
constexpr int most_threads = 4096;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

template <class Condition>
bool spin_until(const Condition& condition) {
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    pause();
  }
  return condition();
}

}  // namespace

int ThreadPool::default_threads() {
#if defined(__linux__)
  // hardware_concurrency() may count cores that the process was not given.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) detail::fail("threads: expected 1 or more, got ", threads);
  if (threads > most_threads) detail::fail("threads: expected ", most_threads, " or fewer, got ", threads);
  try {
    stretches_ = std::make_unique<Stretch[]>(static_cast<std::size_t>(threads));
    workers_.reserve(static_cast<std::size_t>(threads) - 1);
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { wait_for_loops(worker); });
    }
  } catch (const std::exception& error) {          // system_error or, short of memory, bad_alloc
    const std::size_t next = workers_.size() + 2;  // whoever called is the first thread
    join();
    detail::fail("threads: could not start thread ", next, " of ", threads, ": ", error.what(),
                 "; ask for fewer threads");
  }
}

ThreadPool::~ThreadPool() { join(); }

void ThreadPool::join() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Loop& loop) {
  // Waking the others costs more than a single index is worth.
  if (workers_.empty() || loop.count <= 1) {
    for (std::int64_t i = 0; i < loop.count; ++i) loop.call(loop.body, i, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    for (int w = 0; w < threads(); ++w) {
      Stretch& stretch = stretches_[static_cast<std::size_t>(w)];
      stretch.next = loop.count * w / threads();
      stretch.end = loop.count * (w + 1) / threads();
    }
    busy_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  work(0);
  if (!spin_until([this] { return busy_ == 0; })) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(int worker) {
  try {
    for (int turn = 0; turn < threads(); ++turn) {
      Stretch& stretch = stretches_[static_cast<std::size_t>((worker + turn) % threads())];
      for (std::int64_t i = stretch.next++; i < stretch.end; i = stretch.next++) loop_.call(loop_.body, i, worker);
    }
  } catch (...) {
    for (int w = 0; w < threads(); ++w) {
      Stretch& stretch = stretches_[static_cast<std::size_t>(w)];
      stretch.next = stretch.end;
    }
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::wait_for_loops(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto started = [&] { return generation_ != seen; };
    if (!spin_until(started)) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, started);
    }
    if (stop_) return;
    seen = generation_;
    work(worker);
    if (--busy_ == 0) {
      // Taking the mutex closes the gap between the waiter's last look and its sleep.
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace lamina
