#pragma once

#include "lamina/layers/module.h"

namespace lamina {

/// Joins all dimensions after the first: [N, C, H, W] becomes [N, C * H * W], as torch.flatten(x, 1).
class LAMINA_API Flatten : public Module {
 public:
  std::string_view op() const override { return "flatten"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool is_view(std::span<const Shape>) const override { return true; }
  /// A Dropout disappears; a Linear reads the image as it is stored, see Linear::after_flatten.
  std::shared_ptr<const Module> absorb(const Module& next) const override;
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

/// Does nothing: dropout acts in training only. Kept so that a network has the nodes its state dict counts.
class LAMINA_API Dropout : public Module {
 public:
  std::string_view op() const override { return "dropout"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool is_view(std::span<const Shape>) const override { return true; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

}  // namespace lamina
