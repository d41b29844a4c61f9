#pragma once

#include <memory>
#include <span>

#include "lamina/module/module.h"

namespace lamina::detail {

/// If a module has no kernel on the GPU but one on a CPU: an operator for the GPU's plan that computes on the host.
/// Else null. `constants`: by operand, its elements if they are known; else undefined.
std::unique_ptr<Operator> on_host(const Module& module, const Preparation& preparation,
                                  std::span<const Tensor> constants);

}  // namespace lamina::detail
