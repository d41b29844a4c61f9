#pragma once

#include "lamina/module/layer.h"

namespace lamina {

/// exp(x) / the sum of exp(x) along one dimension, as torch.nn.Softmax. Any shape of rank 1 or more.
class LAMINA_API Softmax : public Layer<SoftmaxProblem> {
 public:
  /// A negative dimension counts from the end.
  explicit Softmax(int dim = -1) : dim_(dim) {}

  int dim() const { return dim_; }

  std::string_view op() const override { return "softmax"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  SoftmaxProblem problem(std::span<const Shape> inputs) const override;

 private:
  int dim_;
};

}  // namespace lamina
