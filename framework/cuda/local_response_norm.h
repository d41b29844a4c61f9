#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/local_response.h"
#include "lamina/tensor/format.h"

namespace lamina::cuda {

/// See cpu/local_response_norm.h; [images, channels, pixels] in `format` (f32, f16 or bf16, nchw or nhwc) in the memory
/// of CUDA device `device`. Arithmetic is in f32.
void local_response_norm(int device, const LocalResponse& settings, Format format, const void* input, void* output,
                         Stream stream);

}  // namespace lamina::cuda
