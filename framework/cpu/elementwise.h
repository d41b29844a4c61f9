#pragma once

#include <cstdint>

#include "lamina/cpu/thread_pool.h"

namespace lamina::cpu {

/// output[i] = max(input[i], 0); NaN stays NaN. The two may be the same memory.
void relu(const float* input, float* output, std::int64_t count, ThreadPool& pool);

}  // namespace lamina::cpu
