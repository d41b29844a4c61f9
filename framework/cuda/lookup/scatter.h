#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// See cpu/lookup/scatter.h; in the memory of CUDA device `device`. The same bits on every run. Updates of indices that
/// are outside are left out, and noted in `fault` as gather.h says.
void scatter(int device, const detail::IndexExtents& extents, ScatterReduction reduction, DType dtype, DType index_type,
             const void* data, std::int64_t size, const void* indices, const void* updates, void* output,
             IndexFault* fault, Stream stream);

}  // namespace lamina::cuda
