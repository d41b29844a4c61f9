#pragma once

#include "lamina/kernel/problems.h"
#include "lamina/module/module.h"

namespace lamina {

/// A Module for which the tables have kernels (kernel/kernel.h). It says which problem it is; the rest follows from
/// that.
template <class Problem>
class LAMINA_API Layer : public Module {
 public:
  /// The problem for inputs whose batch is known. Throws Error if they do not fit.
  virtual Problem problem(std::span<const Shape> inputs) const = 0;

  /// Kernels say for themselves whether they read gaps (Kernel::reads), so the layer need not refuse them.
  bool knows_gaps() const override { return true; }
  /// Whether a kernel takes it.
  bool takes(const Preparation& preparation) const override;
  /// Whether a kernel takes it and pays.
  bool pays(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

}  // namespace lamina
