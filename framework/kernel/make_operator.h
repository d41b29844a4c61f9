#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/kernel/operator.h"

/// What layers share behind their interface.
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
  void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const override {
    run_(inputs, output, execution);
  }

 private:
  std::string description_;
  OperatorMemory memory_;
  Run run_;
};

/// An operator whose `run(inputs, output, execution)` is a function object that holds what it needs.
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

/// What elementwise layers take on a GPU: one format, which they keep; on the CPU what everybody takes.
inline bool keeps_format(const Preparation& p) {
  return p.input == p.output && !p.pool && (p.device.is_cuda() || p.input == Format{});
}

/// The extents in the order in which they lie in memory, and where dimension `dim` is among them.
struct StoredShape {
  Shape shape;
  int dim;
};
inline StoredShape stored(const Shape& shape, Layout layout, int dim) {
  if (layout != Layout::nhwc) return {shape, dim};
  constexpr int place[] = {0, 3, 1, 2};
  return {{shape[0], shape[2], shape[3], shape[1]}, place[dim]};
}

inline const Shape& lone_input(std::string_view op, std::span<const Shape> inputs) {
  if (inputs.size() != 1) fail(op, ": expected 1 input, got ", inputs.size());
  return inputs[0];
}

/// An image [N, C, H, W] with pixels, small enough for kernels that count them in int.
inline const Shape& lone_image(std::string_view op, std::span<const Shape> inputs) {
  const Shape& input = lone_input(op, inputs);
  if (input.rank() != 4) fail(op, ": expected input [N, C, H, W], got ", input);
  constexpr std::int64_t largest = 1 << 30;
  if (input[1] < 1 || input[2] < 1 || input[3] < 1 || input[1] > largest || input[2] > largest || input[3] > largest) {
    fail(op, ": expected an image of 1x1 or more, got input ", input);
  }
  return input;
}

/// Dimension `dim` of `shape` counted from the front; negative ones count from the end.
inline int dimension_of(std::string_view op, int dim, const Shape& shape) {
  const auto rank = static_cast<int>(shape.rank());
  if (dim < -rank || dim >= rank) fail(op, ": there is no dimension ", dim, " in input ", shape);
  return dim < 0 ? dim + rank : dim;
}

/// The product of extents [first, last) of a shape whose batch is known.
inline std::int64_t extent_product(const Shape& shape, int first, int last) {
  return Shape(shape.extents().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)))
      .numel();
}

inline void require_parameter(std::string_view op, const Tensor& tensor, const Shape& shape, std::string_view what) {
  if (tensor.dtype() != DType::f32 || tensor.shape() != shape || !tensor.device().is_cpu()) {
    fail(op, ": expected a ", what, " of f32 ", shape, " on cpu, got ", tensor.description());
  }
}

inline void require_loaded(std::string_view op, const Tensor& tensor, std::string_view what) {
  if (!tensor.defined()) fail(op, ": the ", what, " was never set; load weights first");
}

}  // namespace lamina::detail
