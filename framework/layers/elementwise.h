#pragma once

#include <memory>
#include <utility>

#include "lamina/module/layer.h"

namespace lamina {

/// Functions of the elements of its inputs, one after the other: one kernel computes any chain of them. The inputs
/// broadcast as NumPy's do.
class LAMINA_API Elementwise : public Layer<PointwiseProblem> {
 public:
  /// `compute` and `output`: see PointwiseProblem.
  explicit Elementwise(PointwiseChain chain, DType compute = DType::f32, DType output = DType::f32);

  const PointwiseChain& chain() const { return chain_; }
  DType compute() const { return compute_; }
  DType output() const { return output_; }

  std::string_view op() const override { return op_; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  DType output_dtype(std::span<const DType> inputs) const override;
  /// The output has the first input's shape, or it is written elsewhere.
  int in_place(const Preparation&) const override { return 0; }
  /// Functions that follow are further steps. x sigmoid(x) and their like become the function that they are. A product
  /// of two inputs becomes the scaled input of a Conv2d that follows.
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  PointwiseProblem problem(std::span<const Shape> inputs) const override;

 private:
  std::string_view op_;
  PointwiseChain chain_;
  DType compute_, output_;
};

/// max(x, 0) for every element; NaN stays NaN, as in torch.nn.ReLU. Any shape.
class LAMINA_API ReLU : public Elementwise {
 public:
  ReLU() : Elementwise({{Pointwise::relu}}) {}
};

/// 1 / (1 + exp(-x)) for every element, as torch.nn.Sigmoid. Any shape.
class LAMINA_API Sigmoid : public Elementwise {
 public:
  Sigmoid() : Elementwise({{Pointwise::sigmoid}}) {}
};

/// The sum of two inputs, as a + b.
class LAMINA_API Add : public Elementwise {
 public:
  Add() : Elementwise({{.function = Pointwise::add, .operand = 1}}) {}
};

namespace detail {
/// The shape that all of `inputs` broadcast to, as NumPy's do. Throws Error if they do not.
Shape broadcast(std::string_view op, std::span<const Shape> inputs);
}  // namespace detail

}  // namespace lamina
