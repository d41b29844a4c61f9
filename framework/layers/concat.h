#pragma once

#include "lamina/layers/module.h"

namespace lamina {

/// Joins its inputs along one dimension, in order, as torch.cat; all other extents must agree.
class LAMINA_API Concat : public Module {
 public:
  /// A negative dimension counts from the end.
  explicit Concat(int dim) : dim_(dim) {}

  int dim() const { return dim_; }

  std::string_view op() const override { return "concat"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;

 private:
  int dim_;
};

}  // namespace lamina
