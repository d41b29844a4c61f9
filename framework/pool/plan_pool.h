#pragma once

#include <cstdint>
#include <future>  // and of <chrono> the durations
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/function.h"
#include "lamina/graph/graph.h"
#include "lamina/plan/plan.h"

namespace lamina {

struct PoolOptions {
  std::vector<Device> devices = {};  ///< empty: that of the CompileOptions; `parse_devices` reads "cuda:all"
  /// Plans of each device and batch, each with a thread of its own. 0: two on a GPU, so that one uploads while the
  /// other computes, and one on the CPU. Those of the CPU divide
  /// `CompileOptions::threads` among them, or share `CompileOptions::pool`.
  int plans_per_device = 0;
  /// Sizes of batches to compile plans for; a batch runs in the smallest that holds it, as a plan computes all of its
  /// batch even where fewer images were given. Empty: `CompileOptions::batch` alone.
  std::vector<std::int64_t> batches = {};
  /// How long the first request of a batch may wait for others. 0: what is waiting is taken as it comes.
  std::chrono::microseconds max_delay{0};
  std::int64_t max_queue = 1024;  ///< images that may wait
  bool wait_when_full = false;    ///< then `submit` waits for room; else it throws PoolFull
};

/// Thrown by `PlanPool::submit` where as many images wait as may.
class LAMINA_API PoolFull : public Error {
 public:
  using Error::Error;
};

/// What became of a request.
struct PoolAnswer {
  std::vector<Tensor> outputs;  ///< on the host, of as many images as were given; none if there is an error
  std::string error;            ///< empty if all went well
  Device device;                ///< that computed it
  std::int64_t batch = 0;       ///< images that ran together
  std::chrono::nanoseconds waited{0}, ran{0};
};

/// What a plan of the pool has done.
struct PoolWorker {
  Device device;
  std::int64_t batches = 0, images = 0;
  std::string lost;  ///< empty; or why its device is used no more
};

/// Plans of one Graph on several devices, and a queue in front of them. Requests of one image or more, from any number
/// of threads, are answered in batches by whichever plan is free. Weights are uploaded once to each device, to all of
/// them at the same time.
///
/// A batch that fails is redone, each request by itself and once, by whichever plan is free: a request that fails twice
/// is answered with the error. A device that then does not even compute zeros is used no more; the others go on.
class LAMINA_API PlanPool {
 public:
  using Callback = Function<void(PoolAnswer)>;

  /// Compiles, for all devices at the same time. Throws Error, naming the device, where one cannot. The graph may go
  /// afterwards.
  explicit PlanPool(const Graph& graph, const CompileOptions& compile = {}, const PoolOptions& options = {});
  /// As `close`.
  ~PlanPool();
  PlanPool(const PlanPool&) = delete;
  PlanPool& operator=(const PlanPool&) = delete;

  /// Inputs on the host, as for `Plan::run`, of up to `max_batch` images; they must not change until they are answered.
  /// (Of a plan whose images are not by themselves, see `Plan::batched`, exactly those that it was compiled for.)
  ///
  /// Throws Error if the inputs do not fit, if the pool is closed and if no device is left, PoolFull if the queue is
  /// full; then there is no answer. The future gives the outputs or throws Error. A request whose `stop` comes before
  /// a plan took it is not computed, and answered with an error; nobody need wait for an answer.
  std::future<std::vector<Tensor>> submit(std::vector<Tensor> inputs, std::stop_token stop = {});
  /// The same, answered by a call from one of the pool's threads, which must not throw and should be short.
  void submit(std::vector<Tensor> inputs, Callback done, std::stop_token stop = {});

  /// Accepts nothing more, answers what was accepted, and returns then. May be called more than once.
  void close();

  /// The plan of the largest batch of the first device, for its names, shapes, types, memory and options.
  const Plan& plan() const;
  /// The most images that a request may have.
  std::int64_t max_batch() const;
  /// Images that wait.
  std::int64_t waiting() const;
  /// One for each thread.
  std::vector<PoolWorker> workers() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
