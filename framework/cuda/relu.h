#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d/conv2d.h"

namespace lamina::cuda {

/// Enqueues output[i] = max(input[i], 0), NaN staying NaN, for `count` elements of f32, f16 or bf16 in the memory of
/// CUDA device `device`. `output` may be `input`. Throws Error for other dtypes.
void relu(int device, DType dtype, const void* input, void* output, std::int64_t count, Stream stream);

}  // namespace lamina::cuda
