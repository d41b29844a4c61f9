#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d.h"

namespace lamina::cuda {

/// See cpu/softmax.h; f32 [outer, extent, inner] in the memory of CUDA device `device`.
void softmax(int device, const float* input, float* output, std::int64_t outer, std::int64_t extent, std::int64_t inner,
             Stream stream);

}  // namespace lamina::cuda
