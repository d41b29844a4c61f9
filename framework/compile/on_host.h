#pragma once

#include <memory>
#include <span>

#include "lamina/module/module.h"

namespace lamina::detail {

/// Of a module that has no kernel on the GPU, and one on a CPU, an operator of the GPU that computes on the host as a
/// CPU does; null of others. `constants` has those of the operands that are known, others are undefined there.
std::unique_ptr<Operator> on_host(const Module& module, const Preparation& preparation,
                                  std::span<const Tensor> constants);

}  // namespace lamina::detail
