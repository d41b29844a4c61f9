#pragma once

#include "lamina/layers/module.h"

namespace lamina {

/// The sum of two inputs of one shape, as a + b.
class LAMINA_API Add : public Module {
 public:
  std::string_view op() const override { return "add"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool in_place() const override { return true; }
  bool fuses_relu() const override { return true; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

/// 1 / (1 + exp(-x)) for every element, as torch.nn.Sigmoid. Any shape.
class LAMINA_API Sigmoid : public Module {
 public:
  std::string_view op() const override { return "sigmoid"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool in_place() const override { return true; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

}  // namespace lamina
