#include "lamina/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/process/cpu_quota.h"
#include "lamina/base/process/forks.h"

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
#elif defined(__aarch64__)
  asm volatile("isb");  // about as long; `yield` returns at once
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

int cores_of_this_process() {
#if defined(__linux__)
  // hardware_concurrency() may count cores that the process was not given.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

int ThreadPool::default_threads() {
  const int cores = cores_of_this_process();
  static const double quota = detail::cpu_quota().value_or(most_threads);
  return std::clamp(static_cast<int>(std::min(quota, double{most_threads})), 1, cores);
}

/// The threads and what they agree on.
struct ThreadPool::Team {
  /// A worker's stretch of a loop, on a cache line of its own: what one thread writes must not slow the others.
  struct alignas(64) Stretch {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  explicit Team(int threads);
  void join();
  void run(const Loop& given);
  void work(int worker);
  void wait_for_loops(int worker);
  void take_turn();
  void leave_turn();
  bool has_turn() const { return holder == std::this_thread::get_id(); }
  /// Throws Error in a forked child, which has neither the threads nor whoever held a lock.
  void require_threads() const;

  const int threads;
  const unsigned generation = detail::fork_generation();
  std::vector<std::thread> workers;
  std::unique_ptr<Stretch[]> stretches;  // by worker
  Loop loop;
  // Each on a cache line of its own, as above.
  alignas(64) std::atomic<int> busy{0};               // workers that have not finished the current loop
  alignas(64) std::atomic<std::uint64_t> started{0};  // counts loops; a change is the signal to start
  std::atomic<bool> stop{false};

  std::mutex mutex;
  std::condition_variable start, done;
  std::exception_ptr error;  // guarded by mutex

  std::mutex turns;
  std::condition_variable next_turn;
  std::uint64_t asked = 0, served = 0;  // turns, both guarded by `turns`
  std::atomic<std::thread::id> holder;  // of the turn
};

ThreadPool::Team::Team(int count) : threads(count) {
  try {
    stretches = std::make_unique<Stretch[]>(static_cast<std::size_t>(threads));
    workers.reserve(static_cast<std::size_t>(threads) - 1);
    for (int worker = 1; worker < threads; ++worker) {
      workers.emplace_back([this, worker] { wait_for_loops(worker); });
    }
  } catch (const std::exception& failure) {       // system_error or, short of memory, bad_alloc
    const std::size_t next = workers.size() + 2;  // whoever called is the first thread
    join();
    detail::fail("threads: could not start thread ", next, " of ", threads, ": ", failure.what(),
                 "; ask for fewer threads");
  }
}

void ThreadPool::Team::join() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
    ++started;
  }
  start.notify_all();
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::Team::require_threads() const {
  if (generation == detail::fork_generation()) return;
  detail::fail("threads: the process was forked since ", threads,
               " threads were started, which stayed with the parent; compile plans and make pools in the child");
}

void ThreadPool::Team::run(const Loop& given) {
  {
    const std::lock_guard lock(mutex);
    loop = given;
    for (int w = 0; w < threads; ++w) {
      Stretch& stretch = stretches[static_cast<std::size_t>(w)];
      stretch.next = loop.count * w / threads;
      stretch.end = loop.count * (w + 1) / threads;
    }
    busy = static_cast<int>(workers.size());
    ++started;
  }
  start.notify_all();
  work(0);
  if (!spin_until([this] { return busy == 0; })) {
    std::unique_lock lock(mutex);
    done.wait(lock, [this] { return busy == 0; });
  }
  const std::lock_guard lock(mutex);
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
}

void ThreadPool::Team::work(int worker) {
  try {
    for (int turn = 0; turn < threads; ++turn) {
      Stretch& stretch = stretches[static_cast<std::size_t>((worker + turn) % threads)];
      for (std::int64_t i = stretch.next++; i < stretch.end; i = stretch.next++) loop.call(loop.body, i, worker);
    }
  } catch (...) {
    for (int w = 0; w < threads; ++w) {
      Stretch& stretch = stretches[static_cast<std::size_t>(w)];
      stretch.next = stretch.end;
    }
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
  }
}

void ThreadPool::Team::wait_for_loops(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto another = [&] { return started != seen; };
    if (!spin_until(another)) {
      std::unique_lock lock(mutex);
      start.wait(lock, another);
    }
    if (stop) return;
    seen = started;
    work(worker);
    if (--busy == 0) {
      // Taking the mutex closes the gap between the waiter's last look and its sleep.
      const std::lock_guard lock(mutex);
      done.notify_one();
    }
  }
}

void ThreadPool::Team::take_turn() {
  std::unique_lock lock(turns);
  const std::uint64_t ticket = asked++;
  next_turn.wait(lock, [&] { return served == ticket; });
  holder = std::this_thread::get_id();
}

void ThreadPool::Team::leave_turn() {
  {
    const std::lock_guard lock(turns);
    holder = std::thread::id();
    ++served;
  }
  next_turn.notify_all();
}

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  if (threads < 1) detail::fail("threads: expected 1 or more, got ", threads);
  if (threads > most_threads) detail::fail("threads: expected ", most_threads, " or fewer, got ", threads);
  if (threads > 1) team_ = std::make_unique<Team>(threads);
}

ThreadPool::~ThreadPool() {
  if (!team_) return;
  if (team_->generation == detail::fork_generation()) {
    team_->join();
  } else {
    (void)team_.release();  // no thread to join, and locks that may be held for ever: left as it is
  }
}

void ThreadPool::run(const Loop& loop) {
  // Waking the others costs more than a single index is worth.
  if (!team_ || loop.count <= 1) {
    for (std::int64_t i = 0; i < loop.count; ++i) loop.call(loop.body, i, 0);
    return;
  }
  team_->require_threads();
  if (team_->has_turn()) return team_->run(loop);
  const Turn turn(*this);
  team_->run(loop);
}

ThreadPool::Turn::Turn(ThreadPool& pool) : pool_(pool) {
  if (!pool_.team_) return;
  pool_.team_->require_threads();
  if (pool_.team_->has_turn()) {
    detail::fail(
        "threads: a run on this pool's threads waits for another of the same thread; give that one a pool of its own");
  }
  pool_.team_->take_turn();
}

ThreadPool::Turn::~Turn() {
  if (pool_.team_) pool_.team_->leave_turn();
}

}  // namespace lamina
