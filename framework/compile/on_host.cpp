// What a GPU has no kernel for: found elements, counts, types that it does not compute in, modules of the user's.

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

class Step final : public OnHost {
 public:
  Step(std::unique_ptr<Operator> op, const Preparation& p, std::span<const Tensor> known)
      : device_(p.device.device.index), op_(std::move(op)), inputs_(known.begin(), known.end()) {
    const auto memory = [](const View& view) {
      return DryRun::active() ? Tensor(view.shape, view.format.dtype) : Tensor::pinned(view.shape, view.format.dtype);
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      comes_down_.push_back(!inputs_[i].defined());
      if (comes_down_[i]) inputs_[i] = memory(p.inputs[i]);
    }
    for (const View& view : p.outputs) outputs_.push_back(memory(view)), goes_up_.push_back(true);
    if (!DryRun::active()) workspace_.resize(op_->workspace_bytes());
  }
  /// A call may still be enqueued.
  ~Step() override {
    if (ran_) cuda::wait_for_all(device_);
  }

  std::string description() const override { return "on the host: " + op_->description(); }
  std::size_t parameter_bytes() const override { return op_->parameter_bytes(); }
  void wait() const override { op_->wait(); }
  const Tensor& result(std::size_t i) const override { return outputs_[i]; }
  void keep(std::size_t i) override { goes_up_[i] = false; }
  void follow(OnHost& leader) override {
    static_cast<Step&>(leader).followers_.push_back(this);
    follows_ = true;
  }

  void check() const override {
    if (fault_ != nullptr) std::rethrow_exception(std::exchange(fault_, nullptr));
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    ran_ = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!comes_down_[i]) continue;
      cuda::download(device_, inputs_[i].raw(), inputs[i].raw(), inputs[i].bytes(), execution.stream);
    }
    if (!follows_) cuda::call_on_host(device_, compute_all, const_cast<Step*>(this), execution.stream);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!goes_up_[i]) continue;
      cuda::upload(device_, outputs[i].raw(), outputs_[i].raw(), outputs[i].bytes(), execution.stream);
    }
  }

 private:
  static void compute_all(void* leader) {
    const auto& self = *static_cast<const Step*>(leader);
    self.compute();
    for (const Step* follower : self.followers_) follower->compute();
  }

  /// What fails leaves zeros, which what is enqueued behind it can be computed of: the run throws once that is done.
  void compute() const {
    try {
      op_->run(inputs_, outputs_, {.pool = &pool_, .workspace = workspace_.data()});
    } catch (...) {
      if (fault_ == nullptr) fault_ = std::current_exception();
      for (Tensor& output : outputs_) std::memset(output.raw(), 0, output.bytes());
    }
  }

  int device_;
  std::unique_ptr<Operator> op_;
  mutable std::vector<Tensor> inputs_, outputs_;
  std::vector<bool> comes_down_, goes_up_;
  mutable std::vector<std::byte> workspace_;
  mutable ThreadPool pool_ = ThreadPool(1);
  std::vector<const Step*> followers_;
  bool follows_ = false;
  mutable std::exception_ptr fault_;  // looked at where nothing is enqueued
  mutable bool ran_ = false;
};

}  // namespace

std::unique_ptr<OnHost> on_host(const Module& module, const Preparation& preparation, std::span<const Tensor> known,
                                bool prefers_host) {
  Preparation host = preparation;
  host.algorithm = {};  // a convolution that was asked for is not another one, nor on another device
  if (!host.device.device.is_cuda() || (!prefers_host && module.runs(host))) return nullptr;
  if (host.has_slices() || host.has_strides()) return nullptr;  // what is copied has no gaps
  host.finding = nullptr;                                       // which is of the GPU
  host.device = describe_cpu();
  host.precision = Precision::fp32;
  host.threads = ThreadPool::default_threads();  // for plans inside it, which have a pool; others get one thread
  if (!module.runs(host)) return nullptr;
  return std::make_unique<Step>(module.prepare(host), preparation, known);
}

Tensor LeftOnHost::find(std::size_t buffer, const View& operand) const {
  const auto found = left_.find(buffer);
  if (found == left_.end()) return {};
  const Tensor& all = found->second.step->result(found->second.result);
  const bool whole = !operand.is_slice() && !operand.is_strided();
  if (!whole || all.bytes() != bytes_of(operand.shape, operand.format)) return {};
  return all.reinterpret(operand.shape, operand.format.dtype);
}

void LeftOnHost::add(OnHost& step, bool all_known) {
  if (all_known && leader_ != nullptr) return step.follow(*leader_);
  leader_ = &step;
}

void LeftOnHost::given(std::size_t buffer, OnHost& step, std::size_t i) { left_[buffer] = {&step, i}; }

void LeftOnHost::read(std::size_t buffer) {
  if (const auto found = left_.find(buffer); found != left_.end()) found->second.read = true;
}

void LeftOnHost::settle() {
  for (const auto& [buffer, left] : left_) {
    if (!left.read) left.step->keep(left.result);
  }
}

}  // namespace lamina::detail
