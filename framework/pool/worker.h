#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/pool/plan_pool.h"
#include "lamina/pool/queue.h"

namespace lamina::detail {

/// How many images these inputs of a request are. Throws Error unless they fit a plan of the largest batch.
std::int64_t images_of(const Plan& largest, std::span<const Tensor> inputs);

/// The plans of one thread of a pool: one for each size of batch, on one device.
class Worker {
 public:
  /// `sizes` ascend.
  Worker(const Graph& graph, const CompileOptions& options, std::span<const std::int64_t> sizes);

  /// Answers each request once, or returns those that shall be tried once more. Throws nothing.
  std::vector<Request> answer(std::vector<Request> batch);

  /// Empty, unless the last batch failed and the device does not even compute zeros.
  std::string why_lost();

  const Plan& largest() const { return plans_.back(); }
  PoolWorker report() const;

 private:
  std::span<const Tensor> run(std::span<const Tensor> inputs, std::int64_t images, const Limits& limits = {});
  std::vector<Tensor> gathered(std::span<const Request> batch, std::int64_t images);

  std::vector<Plan> plans_;  // the smallest first
  std::optional<cuda::OwnedStream> stream_;
  std::vector<Tensor> staging_;  // where the inputs of several requests become one batch; as large as the largest
  bool failed_ = false;          // the last batch
  mutable std::mutex mutex_;
  PoolWorker report_;
};

}  // namespace lamina::detail
