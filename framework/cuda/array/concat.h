#pragma once

#include <cstdint>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Rows of bytes beside each other: input i [rows, widths[i]], output [rows, sum of widths], in the memory of CUDA
/// device `device`. One launch for up to 32 inputs.
void concat(int device, std::span<const Tensor> inputs, std::span<const std::int64_t> widths, std::int64_t rows,
            void* output, Stream stream);

}  // namespace lamina::cuda
