#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "lamina/pool/plan_pool.h"

namespace lamina::detail {

struct Request {
  std::vector<Tensor> inputs;
  PlanPool::Callback done;
  std::stop_token stop;
  std::int64_t images = 0;
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  std::string failed;  ///< what the first attempt said
};

/// What `words` returns; where there is no memory for that, "out of memory", which needs none. A pool's threads have
/// nobody to throw to.
template <class Words>
std::string words_or_less(const Words& words) try {
  return words();
} catch (const std::bad_alloc&) {
  return "out of memory";
}

/// Answers a request that was not computed.
void refuse(Request& request, ErrorKind kind, const std::string& error);

/// The requests that wait for a plan. Workers enter once, take batches, say when each is done, and leave.
class Queue {
 public:
  struct Limits {
    std::int64_t images = 1;   ///< of a batch
    std::int64_t waiting = 1;  ///< images
    std::chrono::microseconds delay{0};
    bool together = true;  ///< whether requests may share a batch
    bool wait = false;     ///< whether `put` waits for room
  };

  Queue(const Limits& limits, int workers) : limits_(limits), workers_(workers) {}

  /// Throws Error where it is closed or no worker is left, PoolFull where it is full.
  void put(Request request);

  /// The next batch, which is the worker's until `done`; empty when there will be none. Waits.
  std::vector<Request> take();

  /// The worker is done with its batch; `again` are those of it that have to be redone.
  void done(std::vector<Request> again);

  /// The worker takes nothing more, for that reason. When the last one leaves, what waits is answered with it.
  void leave(const std::string& why);

  void close();

  std::int64_t waiting() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Throws std::bad_alloc and has taken nothing then.
  std::vector<Request> pop();
  Request pop_one();

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any change_, room_;
  std::deque<Request> requests_;
  std::deque<Request> again_;  // failed once; each runs by itself
  std::int64_t images_ = 0;    // in requests_
  int workers_;                // that have not left
  int busy_ = 0;               // between take and done
  int putting_ = 0;            // threads in put
  bool closed_ = false;
  std::string lost_;  // why there is no worker
};

}  // namespace lamina::detail
