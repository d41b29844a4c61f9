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
constexpr int max_threads = 4096;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // about as long; `yield` returns at once
#endif
}

// What `started` and `busy` order needs no order of its own.
constexpr std::memory_order relaxed = std::memory_order_relaxed;

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
  static const double quota = detail::cpu_quota().value_or(max_threads);
  return std::clamp(static_cast<int>(std::min(quota, double{max_threads})), 1, cores);
}

/// The threads and what they agree on.
struct ThreadPool::Team {
  /// A worker's stretch of a loop, on a cache line of its own: what one thread writes must not slow the others.
  struct alignas(64) Stretch {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;

    /// The next index, or one that is not below `end`. It looks first, since to add would take the cache line from its
    /// worker, also where nothing is left.
    std::int64_t take() { return next.load(relaxed) < end ? next.fetch_add(1, relaxed) : end; }
    void clear() { next.store(end, relaxed); }
  };

  explicit Team(int threads);
  void join();
  void run(const Loop& given);
  void work(int worker);
  void wake(std::condition_variable& waiters);
  template <class Condition>
  void wait(std::condition_variable& change, std::atomic<int>& idle, const Condition& condition);
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
  // On a cache line of its own, as above: one line tells a worker that there is a loop, and which.
  alignas(64) std::atomic<std::uint64_t> started{0};  // counts loops; a change is the signal to start
  Loop loop;
  bool stop = false;                     // as `loop`, written before `started` changes
  alignas(64) std::atomic<int> busy{0};  // workers that have not finished the current loop
  std::atomic<bool> failed{false};       // there is an `error`

  alignas(64) std::mutex mutex;
  std::condition_variable start, done;
  // Threads that sleep, or are about to. A waiter counts itself and then looks once more for what it waits for; who
  // brings that about looks at the count afterwards: one of them sees the other.
  std::atomic<int> idle_workers{0}, idle_caller{0};
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
  stop = true;
  ++started;
  wake(start);
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::Team::require_threads() const {
  if (generation == detail::fork_generation()) return;
  detail::fail("threads: the process was forked since ", threads,
               " threads were started, which stayed with the parent; compile plans and make pools in the child");
}

/// Wakes those that sleep for what the caller has just brought about. Taking the mutex closes the gap between a
/// waiter's last look and its sleep.
void ThreadPool::Team::wake(std::condition_variable& waiters) {
  { const std::lock_guard lock(mutex); }
  waiters.notify_all();
}

template <class Condition>
void ThreadPool::Team::wait(std::condition_variable& change, std::atomic<int>& idle, const Condition& condition) {
  if (spin_until(condition)) return;
  std::unique_lock lock(mutex);
  ++idle;
  change.wait(lock, condition);
  --idle;
}

void ThreadPool::Team::run(const Loop& given) {
  loop = given;
  for (int w = 0; w < threads; ++w) {
    Stretch& stretch = stretches[static_cast<std::size_t>(w)];
    stretch.next.store(loop.count * w / threads, relaxed);
    stretch.end = loop.count * (w + 1) / threads;
  }
  busy.store(static_cast<int>(workers.size()), relaxed);
  ++started;
  if (idle_workers > 0) wake(start);
  work(0);
  wait(done, idle_caller, [this] { return busy == 0; });
  if (!failed) return;
  const std::lock_guard lock(mutex);
  failed = false;
  std::rethrow_exception(std::exchange(error, nullptr));
}

void ThreadPool::Team::work(int worker) {
  try {
    for (int turn = 0; turn < threads; ++turn) {
      Stretch& stretch = stretches[static_cast<std::size_t>((worker + turn) % threads)];
      for (std::int64_t i = stretch.take(); i < stretch.end; i = stretch.take()) loop.call(loop.body, i, worker);
    }
  } catch (...) {
    for (int w = 0; w < threads; ++w) stretches[static_cast<std::size_t>(w)].clear();
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    failed = true;
  }
}

void ThreadPool::Team::wait_for_loops(int worker) {
  for (std::uint64_t seen = 0;;) {
    wait(start, idle_workers, [&] { return started != seen; });
    if (stop) return;
    ++seen;
    work(worker);
    if (--busy == 0 && idle_caller > 0) wake(done);
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
  if (threads > max_threads) detail::fail("threads: expected ", max_threads, " or fewer, got ", threads);
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
