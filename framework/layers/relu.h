#pragma once

#include "lamina/layers/module.h"

namespace lamina {

/// max(x, 0) for every element; NaN stays NaN, as in torch.nn.ReLU. Any shape.
class LAMINA_API ReLU : public Module {
 public:
  std::string_view op() const override { return "relu"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool in_place() const override { return true; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

}  // namespace lamina
