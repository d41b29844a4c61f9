#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cuda {

/// Enqueues the normalisation of 8-bit pictures: output channel c of a pixel is what row c of `table` says of its byte
/// c, or 2 - c for bgr. f16 and bf16 round to nearest even. Throws Error unless `to` is f32, f16 or bf16 and the
/// activation has 3 channels.
void normalize(int device, const Activation& activation,
               const void* input,   // u8 [N, pixels, 3], at any address
               const float* table,  // [3, 256], on the device
               bool bgr, Format to, void* output, Stream stream);

}  // namespace lamina::cuda
