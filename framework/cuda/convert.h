#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cuda {

/// Enqueues the conversion of an activation from one format to another: f32, f16 or bf16, nchw or nhwc; bytes only to
/// another layout. Rounds to nearest even; beyond f16's range gives infinity. Throws Error for other formats.
void convert(int device, const Activation& activation, Format from, const void* input, Format to, void* output,
             Stream stream);

}  // namespace lamina::cuda
