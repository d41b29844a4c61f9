#pragma once

#include <cstdint>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/tensor/tensor.h"

/// Elementwise work on activations of f32, f16 or bf16 in the memory of CUDA device `device`, enqueued on `stream`;
/// kernel/pointwise.h says what. Arithmetic is in f32. The output may be the first input. Throws Error for other types.
namespace lamina::cuda {

inline constexpr int max_pointwise_steps = 8, max_pointwise_operands = 4;

/// Whether `pointwise` knows these functions, which are the cheap ones: array/broadcast.cu has the others.
bool packs_take(const PointwiseChain& chain);

/// output[i] = the chain's functions, one after the other, of inputs[0][i]; a step's operand is inputs[operand][i].
void pointwise(int device, DType dtype, const PointwiseChain& chain, std::span<const Tensor> inputs, void* output,
               std::int64_t count, Stream stream);

}  // namespace lamina::cuda
