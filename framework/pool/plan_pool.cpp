#include "lamina/pool/plan_pool.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "lamina/base/process/forks.h"
#include "lamina/base/thread_pool.h"
#include "lamina/pool/queue.h"
#include "lamina/pool/worker.h"

namespace lamina {

using detail::fail;
using detail::Queue;
using detail::Request;
using detail::Worker;

namespace {

std::vector<std::int64_t> sizes_of(const CompileOptions& compile, const PoolOptions& options) {
  std::vector<std::int64_t> sizes = options.batches;
  if (sizes.empty()) sizes = {compile.batch};
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// What each worker compiles with: its device, and its share of the cores.
std::vector<CompileOptions> settings_of(const CompileOptions& compile, const PoolOptions& options) {
  std::vector<Device> devices = options.devices;
  if (devices.empty()) devices = {compile.device};
  std::vector<CompileOptions> settings;
  for (const Device device : devices) {
    const int plans = options.plans_per_device > 0 ? options.plans_per_device : device.is_cuda() ? 2 : 1;
    for (int i = 0; i < plans; ++i) {
      settings.push_back(compile);
      CompileOptions& own = settings.back();
      if (own.description && own.description->device != device) own.description.reset();
      own.device = device;
      if (device.is_cuda() || compile.pool) continue;
      const int threads = compile.threads > 0 ? compile.threads : ThreadPool::default_threads();
      own.threads = std::max(1, threads / plans + (i < threads % plans ? 1 : 0));
    }
  }
  return settings;
}

std::vector<std::unique_ptr<Worker>> compile_all(const Graph& graph, const CompileOptions& compile,
                                                 const PoolOptions& options) {
  if (options.plans_per_device < 0)
    fail("pool: expected 0 plans of each device or more, got ", options.plans_per_device);
  const std::vector<std::int64_t> sizes = sizes_of(compile, options);
  const std::vector<CompileOptions> settings = settings_of(compile, options);
  std::vector<std::future<std::unique_ptr<Worker>>> pending;
  try {
    for (const CompileOptions& own : settings)
      pending.push_back(std::async(std::launch::async, [&] { return std::make_unique<Worker>(graph, own, sizes); }));
  } catch (const std::system_error& error) {
    fail("pool: expected ", settings.size(), " threads, the system has not as many: ", error.what());
  }
  for (const auto& one : pending) one.wait();
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    try {
      workers.push_back(pending[i].get());
    } catch (const Error& error) {
      if (settings.size() == 1) throw;
      fail(error.kind(), settings[i].device, ": ", error.what());
    }
  }
  return workers;
}

std::exception_ptr error_of(const PoolAnswer& answer) try {
  if (answer.kind == ErrorKind::stopped) return std::make_exception_ptr(Stopped(answer.error));
  return std::make_exception_ptr(Error(answer.error, answer.kind));
} catch (const std::bad_alloc&) {
  return std::current_exception();
}

}  // namespace

struct PlanPool::Impl {
  Impl(const Graph& graph, const CompileOptions& compile, const PoolOptions& options)
      : workers(compile_all(graph, compile, options)),
        queue({.images = most(),
               .waiting = options.max_queue,
               .delay = options.max_delay,
               .together = plan().batched(),
               .wait = options.wait_when_full},
              static_cast<int>(workers.size())) {
    if (options.max_delay.count() < 0)
      fail("pool: expected a max_delay of 0 or more, got ", options.max_delay.count(), " us");
    if (options.max_queue < most())
      fail("pool: expected a queue of at least a batch, ", most(), " images, got ", options.max_queue);
    try {
      threads.reserve(workers.size());
      for (const auto& worker : workers) threads.emplace_back([this, &worker] { serve(*worker); });
    } catch (const std::system_error& error) {
      close();
      fail("pool: expected ", workers.size(), " threads, the system has not as many: ", error.what());
    } catch (const std::bad_alloc&) {
      close();
      throw;
    }
  }

  /// Throws Error in a forked child, where nobody would answer.
  void require_threads() const {
    if (generation == detail::fork_generation()) return;
    fail("pool: made before this process was forked, and its threads stayed with the parent; make it in the child");
  }

  const Plan& plan() const { return workers[0]->largest(); }
  std::int64_t most() const { return plan().options().batch; }

  void serve(Worker& worker) {
    for (;;) {
      std::vector<Request> requests = queue.take();
      if (requests.empty()) return queue.leave("");
      std::vector<Request> again = worker.answer(std::move(requests));
      const std::string lost = worker.why_lost();
      queue.done(std::move(again));
      if (!lost.empty()) return queue.leave(lost);
    }
  }

  void close() {
    queue.close();
    const std::scoped_lock lock(joining);
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }

  const unsigned generation = detail::fork_generation();
  std::vector<std::unique_ptr<Worker>> workers;
  Queue queue;
  std::mutex joining;
  std::vector<std::thread> threads;
};

PlanPool::PlanPool(const Graph& graph, const CompileOptions& compile, const PoolOptions& options)
    : impl_(std::make_unique<Impl>(graph, compile, options)) {}

PlanPool::~PlanPool() {
  if (impl_->generation == detail::fork_generation()) {
    impl_->close();
  } else {
    (void)impl_.release();  // threads to join and locks that may be held are the parent's
  }
}

void PlanPool::close() {
  impl_->require_threads();
  impl_->close();
}

void PlanPool::submit(std::vector<Tensor> inputs, Callback done, std::stop_token stop) {
  impl_->require_threads();
  const std::int64_t images = detail::images_of(impl_->plan(), inputs);
  impl_->queue.put(
      {.inputs = std::move(inputs), .done = std::move(done), .stop = std::move(stop), .images = images, .failed = {}});
}

std::future<std::vector<Tensor>> PlanPool::submit(std::vector<Tensor> inputs, std::stop_token stop) {
  auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
  std::future<std::vector<Tensor>> future = promise->get_future();
  submit(
      std::move(inputs),
      [promise](PoolAnswer answer) {
        if (answer.error.empty()) {
          promise->set_value(std::move(answer.outputs));
        } else {
          promise->set_exception(error_of(answer));
        }
      },
      std::move(stop));
  return future;
}

const Plan& PlanPool::plan() const { return impl_->plan(); }
std::int64_t PlanPool::max_batch() const { return impl_->most(); }
std::int64_t PlanPool::waiting() const { return impl_->queue.waiting(); }

std::vector<PoolWorker> PlanPool::workers() const {
  std::vector<PoolWorker> result;
  for (const auto& worker : impl_->workers) result.push_back(worker->report());
  return result;
}

}  // namespace lamina
