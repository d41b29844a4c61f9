#pragma once

#include "lamina/layers/layer.h"

namespace lamina {

/// Functions of the elements of inputs of one shape, one after the other: one kernel computes any chain of them.
class LAMINA_API Elementwise : public Layer<PointwiseProblem> {
 public:
  const PointwiseChain& chain() const { return chain_; }

  std::string_view op() const override { return op_; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool in_place() const override { return true; }
  /// A function of one element that follows is one more step.
  std::shared_ptr<const Module> absorb(const Module& next) const override;
  PointwiseProblem problem(std::span<const Shape> inputs) const override;

 protected:
  Elementwise(std::string_view op, PointwiseStep first) : op_(op), chain_{first} {}

 private:
  std::string_view op_;
  PointwiseChain chain_;
};

/// max(x, 0) for every element; NaN stays NaN, as in torch.nn.ReLU. Any shape.
class LAMINA_API ReLU : public Elementwise {
 public:
  ReLU() : Elementwise("relu", {Pointwise::relu}) {}
};

/// 1 / (1 + exp(-x)) for every element, as torch.nn.Sigmoid. Any shape.
class LAMINA_API Sigmoid : public Elementwise {
 public:
  Sigmoid() : Elementwise("sigmoid", {Pointwise::sigmoid}) {}
};

/// The sum of two inputs of one shape, as a + b.
class LAMINA_API Add : public Elementwise {
 public:
  Add() : Elementwise("add", {Pointwise::add, 1}) {}
};

namespace detail {
/// The chain with `next` behind it; false if that is no function of one element.
bool append(PointwiseChain& chain, const Module& next);
}  // namespace detail

}  // namespace lamina
