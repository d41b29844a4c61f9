#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// The first k along the middle of [outer, extent, inner], as TopKProblem orders them: values of `dtype`, or places as
/// i64. Allocates nothing; `workspace` is topk_workspace() bytes.
void topk(const TopKProblem& problem, const detail::LineExtents& extents, DType dtype, const void* input, void* output,
          ThreadPool& pool, void* workspace);
std::size_t topk_workspace(const detail::LineExtents& extents, int threads);

}  // namespace lamina::cpu
