#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lamina/kernel/operator.h"

/// Operators from function objects.
namespace lamina::detail {

struct OperatorTraits {
  std::size_t workspace = 0, counters = 0;  // bytes
  bool heeds_neighbours = false;
};

template <class Run>
class FunctionOperator final : public Operator {
 public:
  FunctionOperator(std::string description, OperatorTraits traits, Run run)
      : description_(std::move(description)), traits_(traits), run_(std::move(run)) {}

  std::string description() const override { return description_; }
  std::size_t workspace_bytes() const override { return traits_.workspace; }
  std::size_t counter_bytes() const override { return traits_.counters; }
  void wait() const override {
    if constexpr (requires { run_.wait(); }) run_.wait();
  }
  bool heeds_neighbours() const override { return traits_.heeds_neighbours; }
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    run_(inputs, outputs, execution);
  }

 private:
  std::string description_;
  OperatorTraits traits_;
  Run run_;
};

/// An operator whose `run(inputs, outputs, execution)` is a function object that holds what it needs.
template <class Run>
std::unique_ptr<Operator> make_operator(std::string description, OperatorTraits traits, Run run) {
  return std::make_unique<FunctionOperator<Run>>(std::move(description), traits, std::move(run));
}
template <class Run>
std::unique_ptr<Operator> make_operator(std::string description, Run run) {
  return make_operator(std::move(description), OperatorTraits{}, std::move(run));
}

/// The elements of an activation, wherever it is.
inline const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.raw()); }
inline float* floats(Tensor& tensor) { return static_cast<float*>(tensor.raw()); }

}  // namespace lamina::detail

/// What the sources that write a device's tables say again and again: `using namespace tables;`.
namespace lamina::tables {

using detail::floats;
using detail::make_operator;
using Inputs = std::span<const Tensor>;
using Outputs = std::span<Tensor>;

/// The GPU's.
inline int index(const Preparation& p) { return p.device.device.index; }

}  // namespace lamina::tables
