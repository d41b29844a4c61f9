#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/kernel/operator.h"

/// Operators from function objects.
namespace lamina::detail {

struct OperatorMemory {
  std::size_t workspace = 0;
  std::size_t parameters = 0;
};

template <class Run>
class FunctionOperator final : public Operator {
 public:
  FunctionOperator(std::string description, OperatorMemory memory, Run run)
      : description_(std::move(description)), memory_(memory), run_(std::move(run)) {}

  std::string description() const override { return description_; }
  std::size_t workspace_bytes() const override { return memory_.workspace; }
  std::size_t parameter_bytes() const override { return memory_.parameters; }
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    run_(inputs, outputs, execution);
  }

 private:
  std::string description_;
  OperatorMemory memory_;
  Run run_;
};

/// An operator whose `run(inputs, outputs, execution)` is a function object that holds what it needs.
template <class Run>
std::unique_ptr<Operator> make_operator(std::string description, OperatorMemory memory, Run run) {
  return std::make_unique<FunctionOperator<Run>>(std::move(description), memory, std::move(run));
}
template <class Run>
std::unique_ptr<Operator> make_operator(std::string description, Run run) {
  return make_operator(std::move(description), OperatorMemory{}, std::move(run));
}

/// The elements of an activation, wherever it is.
inline const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.raw()); }
inline float* floats(Tensor& tensor) { return static_cast<float*>(tensor.raw()); }

}  // namespace lamina::detail
