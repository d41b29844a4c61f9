#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// Running sums or products along the middle of [outer, extent, inner]; f32 in double precision, whole numbers wrap.
/// f32, f64, i32 or i64.
void cumulative(const CumulativeProblem& problem, const detail::LineExtents& extents, DType dtype, const void* input,
                void* output, ThreadPool& pool);

}  // namespace lamina::cpu
