#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// See cpu/softmax.h; [outer, extent, inner] of f32, f16 or bf16 in the memory of CUDA device `device`. Arithmetic is
/// in f32. Where inner > 1, sums are added up in an order that is good for `usual_positions` of [outer, inner].
void softmax(int device, SoftmaxKind kind, DType dtype, const void* input, void* output, std::int64_t outer,
             std::int64_t extent, std::int64_t inner, std::int64_t usual_positions, Stream stream);

}  // namespace lamina::cuda
