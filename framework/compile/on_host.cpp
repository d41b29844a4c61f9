// Operations that have no kernel on a GPU are computed on the host: unique rows, branches and loops that a run decides,
// types that a GPU's kernels do not compute in, modules of the user's.

#include "lamina/compile/on_host.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::detail {
namespace {

/// Operands come down, a CPU's operator computes in one thread, and results go up. It has memory of its own, so it runs
/// in one thread at a time.
class OnHost final : public Operator {
 public:
  OnHost(std::unique_ptr<Operator> op, const Preparation& p, std::span<const Tensor> constants)
      : device_(p.device.device.index), op_(std::move(op)), inputs_(constants.begin(), constants.end()) {
    const auto memory = [](const View& view) {
      return DryRun::active() ? Tensor(view.shape, view.format.dtype) : Tensor::pinned(view.shape, view.format.dtype);
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      comes_down_.push_back(!inputs_[i].defined());
      if (comes_down_[i]) inputs_[i] = memory(p.inputs[i]);
    }
    for (const View& view : p.outputs) outputs_.push_back(memory(view));
    if (!DryRun::active()) workspace_.resize(op_->workspace_bytes());
  }
  /// Waits: a call that uses this object may still be enqueued.
  ~OnHost() override {
    if (ran_) cuda::wait_for_all(device_);
  }

  std::string description() const override { return "on the host: " + op_->description(); }
  std::size_t parameter_bytes() const override { return op_->parameter_bytes(); }
  void wait() const override { op_->wait(); }
  void check() const override {
    if (fault_ != nullptr) std::rethrow_exception(std::exchange(fault_, nullptr));
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    ran_ = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!comes_down_[i]) continue;
      cuda::download(device_, inputs_[i].raw(), inputs[i].raw(), inputs[i].bytes(), execution.stream);
    }
    cuda::call_on_host(device_, compute, const_cast<OnHost*>(this), execution.stream);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      cuda::upload(device_, outputs[i].raw(), outputs_[i].raw(), outputs[i].bytes(), execution.stream);
    }
  }

 private:
  /// If the operator fails, its outputs become zeros, so that the steps already enqueued behind it can go on; the run
  /// throws once they are done.
  static void compute(void* step) {
    const auto& self = *static_cast<const OnHost*>(step);
    try {
      self.op_->run(self.inputs_, self.outputs_, {.pool = &self.pool_, .workspace = self.workspace_.data()});
    } catch (...) {
      if (self.fault_ == nullptr) self.fault_ = std::current_exception();
      for (Tensor& output : self.outputs_) std::memset(output.raw(), 0, output.bytes());
    }
  }

  int device_;
  std::unique_ptr<Operator> op_;
  mutable std::vector<Tensor> inputs_, outputs_;
  std::vector<bool> comes_down_;
  mutable std::vector<std::byte> workspace_;
  mutable ThreadPool pool_ = ThreadPool(1);
  mutable std::exception_ptr fault_;  // only looked at while nothing is enqueued
  mutable bool ran_ = false;
};

}  // namespace

std::unique_ptr<Operator> on_host(const Module& module, const Preparation& preparation,
                                  std::span<const Tensor> constants) {
  Preparation host = preparation;
  host.algorithm = {};  // a kernel that was asked for by name is neither replaced by another nor looked for on the host
  if (!host.device.device.is_cuda() || module.takes(host)) return nullptr;
  if (host.has_slices() || host.has_strides()) return nullptr;  // what is copied has no gaps
  host.finding = nullptr;                                       // what it holds was found for the GPU
  host.device = describe_cpu();
  host.precision = Precision::fp32;
  host.threads = ThreadPool::default_threads();  // for plans inside it, which have a pool; others get one thread
  if (!module.takes(host)) return nullptr;
  return std::make_unique<OnHost>(module.prepare(host), preparation, constants);
}

}  // namespace lamina::detail
