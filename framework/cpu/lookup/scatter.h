#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// output = data, with `updates` put in at the places that `indices`, of i64 or i32, say, in order; those outside are
/// left out. Sums and products of whole numbers wrap, those of booleans are or and and; 16-bit floats round each time.
void scatter(const detail::IndexExtents& extents, ScatterReduction reduction, DType dtype, DType index_type,
             const void* data, std::int64_t size,  // elements of it
             const void* indices, const void* updates, void* output, ThreadPool& pool);

}  // namespace lamina::cpu
