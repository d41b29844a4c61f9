#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/local_response.h"

namespace lamina::cpu {

/// output = input / (k + alpha / size * the sum of squares over `size` neighbouring channels) ^ beta
void local_response_norm(const LocalResponse& settings,
                         const float* input,  // [images, channels, pixels]
                         float* output,       // [images, channels, pixels]
                         ThreadPool& pool);

}  // namespace lamina::cpu
