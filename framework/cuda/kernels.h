#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/activation.h"

/// Work on activations of f32, f16 or bf16. Arithmetic is in f32. Functions that are given a device work in its memory,
/// enqueued on `stream`; they throw Error for other types.
namespace lamina::cuda {

Prepare<LocalResponseProblem> prepare_local_response;

/// May turn the layout on its way.
Takes<PoolProblem> takes_pool;
Prepare<PoolProblem> prepare_pool;
/// Enqueues the normalisation of 8-bit pictures: output channel c of a pixel is what row c of `table` says of its byte
/// c, or 2 - c for bgr. f16 and bf16 round to nearest even. Throws Error unless `to` is f32, f16 or bf16 and the
/// activation has 3 channels.
void normalize(int device, const Activation& activation,
               const void* input,   // u8 [N, pixels, 3], at any address
               const float* table,  // [3, 256], on the device
               bool bgr, Format to, void* output, Stream stream);

}  // namespace lamina::cuda
