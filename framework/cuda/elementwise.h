#pragma once

#include <cstdint>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/epilogue.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"
#include "lamina/tensor/tensor.h"

/// Elementwise work on activations of f32, f16 or bf16 in the memory of CUDA device `device`, enqueued on `stream`;
/// kernel/pointwise.h says what. Arithmetic is in f32. The output may be the first input. Throws Error for other types.
namespace lamina::cuda {

inline constexpr int max_pointwise_steps = 8, max_pointwise_operands = 4;

/// Whether `pointwise` knows these functions, which are the cheap ones: broadcast.h has the others.
bool packs_take(const PointwiseChain& chain);

/// output[i] = the chain's functions, one after the other, of inputs[0][i]; a step's operand is inputs[operand][i].
void pointwise(int device, DType dtype, const PointwiseChain& chain, std::span<const Tensor> inputs, void* output,
               std::int64_t count, Stream stream);

/// Input and output in `format`. The input's pixels lie `pixel_pitch` elements apart; where that is not the number of
/// channels, it is nhwc, and channels and addresses are whole packs of 16 bytes, fewer than 2^31 elements.
void scale_and_shift(int device, Format format, const Activation& activation, const void* input,
                     const float* scale,  // [channels]
                     const float* shift,  // [channels]
                     std::int64_t pixel_pitch, void* output, bool relu, Stream stream);

}  // namespace lamina::cuda
