#pragma once

#include <span>

#include "lamina/module/module.h"

namespace lamina::detail {

/// Prepares a module that is no view for these inputs, all on one device, and runs it. `shape` and `dtype`: of the
/// output.
Tensor run_once(const Module& module, std::span<const Tensor> inputs, Shape shape, DType dtype, int threads);

}  // namespace lamina::detail
