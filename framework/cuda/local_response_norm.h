#pragma once

#include "lamina/cuda/conv2d.h"
#include "lamina/tensor/local_response.h"

namespace lamina::cuda {

/// See cpu/local_response_norm.h; f32 [images, channels, pixels] in the memory of CUDA device `device`.
void local_response_norm(int device, const LocalResponse& settings, const float* input, float* output, Stream stream);

}  // namespace lamina::cuda
