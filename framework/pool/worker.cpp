#include "lamina/pool/worker.h"

#include <algorithm>
#include <new>
#include <utility>

#include "lamina/base/in_parallel.h"
#include "lamina/base/thread_pool.h"

namespace lamina::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t copied_at_once = std::size_t{1} << 20;  // bytes, by one thread

Shape with_images(Shape shape, std::int64_t images) {
  shape.set(0, images);
  return shape;
}

Tensor host_tensor(const Plan& plan, std::size_t input) {
  const Shape& shape = plan.input_shapes()[input];
  const DType dtype = plan.input_dtypes()[input];
  // Pinned memory is what copies to a GPU overlap with.
  return plan.options().device.is_cuda() ? Tensor::pinned(shape, dtype) : Tensor(shape, dtype);
}

/// Calls f; what it throws, in words and its kind.
template <class F>
PoolAnswer failure_of(const F& f) {
  PoolAnswer result;
  result.kind = ErrorKind::failed;
  result.error = words_or_less([&]() -> std::string {
    try {
      f();
      return {};
    } catch (const Error& error) {
      result.kind = error.kind();
      return error.what();
    } catch (const std::bad_alloc&) {
      result.kind = ErrorKind::out_of_memory;
      throw;
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  return result;
}

}  // namespace

std::int64_t images_of(const Plan& largest, std::span<const Tensor> inputs) {
  const auto names = largest.input_names();
  const auto shapes = largest.input_shapes();
  if (inputs.size() != names.size()) fail("pool: expected ", names.size(), " inputs, got ", inputs.size());
  const std::int64_t most = largest.options().batch;
  std::int64_t images = most;
  if (largest.batched() && inputs[0].defined() && inputs[0].shape().rank() > 0)
    images = std::clamp(inputs[0].shape()[0], std::int64_t{1}, most);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& given = inputs[i];
    const Shape expected = largest.batched() ? with_images(shapes[i], images) : shapes[i];
    if (given.defined() && given.device().is_cpu() && given.dtype() == largest.input_dtypes()[i] &&
        given.shape() == expected) {
      continue;
    }
    fail(names[i], ": expected ", largest.input_dtypes()[i], ' ', largest.batched() ? shapes[i] : expected,
         largest.batched() ? " or fewer images, on the cpu, got " : " on the cpu, got ", given.description());
  }
  return images;
}

Worker::Worker(const Graph& graph, const CompileOptions& options, std::span<const std::int64_t> sizes) {
  report_.device = options.device;
  CompileOptions own = options;
  // One plan runs at a time: they need no threads each.
  if (options.device.is_cpu() && !own.pool) own.pool = std::make_shared<ThreadPool>(options.threads);
  for (const std::int64_t size : sizes) {
    own.batch = size;
    plans_.push_back(graph.compile(own));
  }
  if (options.device.is_cuda()) stream_.emplace(options.device.index);
  for (std::size_t i = 0; i < largest().input_shapes().size(); ++i) staging_.push_back(host_tensor(largest(), i));
}

std::span<const Tensor> Worker::run(std::span<const Tensor> inputs, std::int64_t images, const Limits& limits) {
  const auto holds = [images](const Plan& plan) { return plan.options().batch >= images; };
  Plan& plan = *std::ranges::find_if(plans_, holds);
  return plan.run(inputs, stream_ ? stream_->get() : nullptr, limits);
}

std::vector<Tensor> Worker::gathered(std::span<const Request> batch, std::int64_t images) {
  if (batch.size() == 1) return batch[0].inputs;  // used where they are
  std::vector<std::int64_t> first(batch.size(), 0);
  for (std::size_t r = 1; r < batch.size(); ++r) first[r] = first[r - 1] + batch[r - 1].images;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < staging_.size(); ++i) {
    // Of large images, one thread's copies would take as long as a GPU's computing.
    const std::size_t piece = std::max<std::size_t>(1, copied_at_once * batch.size() / (staging_[i].bytes() + 1));
    in_parallel(batch.size(), piece, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r)
        staging_[i].slice(first[r], first[r] + batch[r].images).copy_from(batch[r].inputs[i]);
    });
    inputs.push_back(staging_[i].slice(0, images));
  }
  return inputs;
}

std::vector<Request> Worker::answer(std::vector<Request> batch) {
  const Clock::time_point start = Clock::now();
  std::int64_t images = 0;
  for (const Request& request : batch) images += request.images;
  std::vector<std::vector<Tensor>> outputs;
  std::vector<Request> again;
  const std::stop_token stop = batch.size() == 1 ? batch[0].stop : std::stop_token();  // others want their answers
  const PoolAnswer failure = failure_of([&] {
    again.reserve(batch.size());
    outputs.resize(batch.size());
    const std::vector<Tensor> inputs = gathered(batch, images);
    const std::span<const Tensor> results = run(inputs, images, {.stop = stop});
    std::int64_t first = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::int64_t end = first + batch[i].images;
      for (const Tensor& result : results)
        outputs[i].push_back(batch.size() == 1 ? result.clone() : result.slice(first, end).clone());
      first = end;
    }
  });
  const std::string& error = failure.error;
  failed_ = !error.empty() && !stop.stop_requested();
  if (error.empty()) {
    const std::scoped_lock lock(mutex_);
    report_.batches += 1;
    report_.images += images;
  }
  // All is there or nothing is: no request is answered and redone.
  const auto named = [&] { return words_or_less([&] { return concat(report_.device, ": ", error); }); };
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Request& request = batch[i];
    if (failed_ && request.failed.empty() && again.size() < again.capacity()) {
      request.failed = named();
      again.push_back(std::move(request));
      continue;
    }
    std::string what = failed_ ? named() : words_or_less([&] { return error; });
    if (failed_ && !request.failed.empty() && request.failed != what)
      what = words_or_less([&] { return concat(what, "; before that ", request.failed); });
    request.done({.outputs = what.empty() ? std::move(outputs[i]) : std::vector<Tensor>(),
                  .error = std::move(what),
                  .kind = failure.kind,
                  .device = report_.device,
                  .batch = images,
                  .waited = start - request.arrived,
                  .ran = Clock::now() - start});
  }
  return again;
}

std::string Worker::why_lost() {
  if (!failed_) return {};
  const std::string error = failure_of([&] {
                              std::vector<Tensor> zeros;
                              const Plan& smallest = plans_.front();
                              for (std::size_t i = 0; i < staging_.size(); ++i)
                                zeros.push_back(Tensor::zeros(smallest.input_shapes()[i], smallest.input_dtypes()[i]));
                              (void)run(zeros, smallest.options().batch);
                            }).error;
  if (error.empty()) return {};
  const std::scoped_lock lock(mutex_);
  report_.lost = words_or_less([&] { return concat(report_.device, ": ", error); });
  return words_or_less([&] { return report_.lost; });
}

PoolWorker Worker::report() const {
  const std::scoped_lock lock(mutex_);
  return report_;
}

}  // namespace lamina::detail
