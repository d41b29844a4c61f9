#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Along `extent`: exp(input) / the sum of exp(input), or its logarithm, neither of which overflows. The output may be
/// the input.
void softmax(SoftmaxKind kind,
             const float* input,  // [outer, extent, inner]
             float* output,       // [outer, extent, inner]
             std::int64_t outer, std::int64_t extent, std::int64_t inner, ThreadPool& pool);

}  // namespace lamina::cpu
