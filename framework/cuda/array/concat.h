#pragma once

#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Rows of bytes beside each other, in the memory of CUDA device `device`. What is where it belongs already is left
/// alone. One launch for up to 32 inputs beside each other.
void concat(int device, std::span<const Tensor> inputs, const detail::ConcatRows& rows, void* output, Stream stream);

}  // namespace lamina::cuda
