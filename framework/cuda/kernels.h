#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/activation.h"

/// Work on activations of f32, f16 or bf16. Arithmetic is in f32. Functions that are given a device work in its memory,
/// enqueued on `stream`; they throw Error for other types.
namespace lamina::cuda {

Takes<AffineProblem> takes_affine;
Prepare<AffineProblem> prepare_affine;

/// Along a dimension that is not the innermost, sums are added up in an order that is good for a usual batch.
Prepare<SoftmaxProblem> prepare_softmax;

Prepare<LocalResponseProblem> prepare_local_response;

/// May turn the layout on its way.
Takes<PoolProblem> takes_pool;
Prepare<PoolProblem> prepare_pool;
/// The mean over all pixels of each channel, nhwc, in the memory of the current device. f32, f16 or bf16.
void global_average(DType dtype, std::int64_t images, std::int64_t pixels, std::int64_t channels,
                    const void* input,  // [images, pixels, channels]
                    void* output,       // [images, channels]
                    Stream stream);

/// Enqueues the conversion of an activation from one format to another: f32, f16 or bf16, nchw or nhwc; bytes only to
/// another layout. Rounds to nearest even; beyond f16's range gives infinity. Throws Error for other formats.
void convert(int device, const Activation& activation, Format from, const void* input, Format to, void* output,
             Stream stream);

/// Enqueues the normalisation of 8-bit pictures: output channel c of a pixel is what row c of `table` says of its byte
/// c, or 2 - c for bgr. f16 and bf16 round to nearest even. Throws Error unless `to` is f32, f16 or bf16 and the
/// activation has 3 channels.
void normalize(int device, const Activation& activation,
               const void* input,   // u8 [N, pixels, 3], at any address
               const float* table,  // [3, 256], on the device
               bool bgr, Format to, void* output, Stream stream);

}  // namespace lamina::cuda
