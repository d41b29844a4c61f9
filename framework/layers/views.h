#pragma once

#include "lamina/module/module.h"

namespace lamina {

/// The elements of the one input under another shape, or the same: nothing is computed.
class LAMINA_API ViewOfInput : public Module {
 public:
  DType output_dtype(std::span<const DType> inputs) const override { return inputs[0]; }
  bool is_view(std::span<const Shape>) const override { return true; }
  /// Throws Error: a view has no operator.
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

/// The same elements in the same row-major order under another shape. For compilers, which know the shapes.
class LAMINA_API Reshape : public ViewOfInput {
 public:
  explicit Reshape(Shape shape) : shape_(shape) {}

  std::string_view op() const override { return "reshape"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  const Shape& shape() const { return shape_; }
  /// A move counts elements in row-major order, and reads what this one reads; a norm as well.
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  bool takes(const Preparation& preparation) const override;

 private:
  Shape shape_;
};

/// Joins all dimensions after the first: [N, C, H, W] becomes [N, C * H * W], as torch.flatten(x, 1).
class LAMINA_API Flatten : public ViewOfInput {
 public:
  std::string_view op() const override { return "flatten"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  /// A Dropout disappears; a Linear reads the image as it is stored, see Linear::after_flatten.
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  bool takes(const Preparation& preparation) const override;
};

/// Does nothing: dropout acts in training only. Kept so that a network has the nodes its state dict counts.
class LAMINA_API Dropout : public ViewOfInput {
 public:
  std::string_view op() const override { return "dropout"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool takes(const Preparation& preparation) const override;
};

}  // namespace lamina
