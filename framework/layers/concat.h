#pragma once

#include "lamina/module/layer.h"

namespace lamina {

/// Joins its inputs along one dimension, in order, as torch.cat; all other extents must agree.
class LAMINA_API Concat : public Layer<ConcatProblem> {
 public:
  /// A negative dimension counts from the end.
  explicit Concat(int dim) : dim_(dim) {}

  int dim() const { return dim_; }

  std::string_view op() const override { return "concat"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  DType output_dtype(std::span<const DType> inputs) const override;
  ConcatProblem problem(std::span<const Shape> inputs) const override;

 private:
  int dim_;
};

}  // namespace lamina
