#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// See cpu/lookup/cumulative.h; in the memory of CUDA device `device`: f16, bf16, f32 and f64 in double precision, i32,
/// i64.
void cumulative(int device, const CumulativeProblem& problem, const detail::LineExtents& extents, DType dtype,
                const void* input, void* output, Stream stream);

}  // namespace lamina::cuda
