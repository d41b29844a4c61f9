#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"

namespace lamina::cpu {

/// output = exp(input) / the sum of exp(input) over `extent`, without overflow.
void softmax(const float* input,  // [outer, extent, inner]
             float* output,       // [outer, extent, inner]
             std::int64_t outer, std::int64_t extent, std::int64_t inner, ThreadPool& pool);

}  // namespace lamina::cpu
