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
  std::vector<Device> devices = {};  ///< empty: the device of the CompileOptions; `parse_devices` reads "cuda:all"
  /// Number of Plans for each device and batch; each Plan has its own thread. 0: two on a GPU, so that one uploads
  /// while the other computes, and one on the CPU. Plans on the CPU divide `CompileOptions::threads` between them, or
  /// share `CompileOptions::pool`.
  int plans_per_device = 0;
  /// Sizes of batches for which plans are compiled. A batch runs in the smallest plan that holds it, because a plan
  /// computes its whole batch even for fewer images. Empty: only `CompileOptions::batch`.
  std::vector<std::int64_t> batches = {};
  /// How long the first request of a batch may wait for others. 0: it does not wait for others.
  std::chrono::microseconds max_delay{0};
  std::int64_t max_queue = 1024;  ///< images that may wait
  bool wait_when_full = false;    ///< if the queue is full: true: `submit` waits for room; false: it throws PoolFull
};

/// Thrown by `PlanPool::submit` if the queue is full.
class LAMINA_API PoolFull : public Error {
 public:
  explicit PoolFull(const std::string& what) : Error(what, ErrorKind::stopped) {}
};

/// The answer to a request.
struct PoolAnswer {
  std::vector<Tensor> outputs;          ///< on the host, for as many images as you gave; none if there is an error
  std::string error;                    ///< empty if there is none
  ErrorKind kind = ErrorKind::invalid;  ///< of the error
  Device device;                        ///< the device that computed it
  std::int64_t batch = 0;               ///< images that ran together
  std::chrono::nanoseconds waited{0}, ran{0};
};

/// The work of one plan of the pool.
struct PoolWorker {
  Device device;
  std::int64_t batches = 0, images = 0;
  std::string lost;  ///< empty, or the reason why its device is no longer used
};

/// Plans of one Graph on several devices, with a queue in front. Any number of threads send requests of one image or
/// more. The pool forms batches, and the next free plan runs each batch. Weights are uploaded once to each device, to
/// all devices at the same time.
///
/// If a batch fails, each of its requests is repeated alone, once, by the next free plan. A request that fails twice is
/// answered with the error. A device that then fails even on zeros is no longer used; the others go on.
class LAMINA_API PlanPool {
 public:
  using Callback = Function<void(PoolAnswer)>;

  /// Compiles for all devices at the same time. Throws Error, naming the device, if one cannot run the graph. You may
  /// destroy the graph afterwards.
  explicit PlanPool(const Graph& graph, const CompileOptions& compile = {}, const PoolOptions& options = {});
  /// As `close`.
  ~PlanPool();
  PlanPool(const PlanPool&) = delete;
  PlanPool& operator=(const PlanPool&) = delete;

  /// Takes inputs on the host, as for `Plan::run`, of up to `max_batch` images. They must not change until the answer
  /// comes. (If the plan is not `Plan::batched`, give exactly the batch that it was compiled for.)
  ///
  /// The future gives the outputs or throws Error. `submit` itself throws Error if the inputs do not fit, if the pool
  /// is closed, or if no device is left, and PoolFull if the queue is full; then there is no answer. A request whose
  /// `stop` comes before a plan took it is not computed; one that is alone in its batch is computed no further. Both
  /// are answered with an error. Nobody need wait for an answer.
  std::future<std::vector<Tensor>> submit(std::vector<Tensor> inputs, std::stop_token stop = {});
  /// The same; the answer is a call of `done` from one of the pool's threads. It must not throw, and should be short.
  void submit(std::vector<Tensor> inputs, Callback done, std::stop_token stop = {});

  /// Accepts nothing more, answers what was accepted, and then returns. May be called more than once.
  void close();

  /// The plan with the largest batch on the first device, for its names, shapes, types, memory and options.
  const Plan& plan() const;
  /// The most images that a request may have.
  std::int64_t max_batch() const;
  /// The number of images that wait.
  std::int64_t waiting() const;
  /// One for each thread.
  std::vector<PoolWorker> workers() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
