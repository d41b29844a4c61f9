#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/tensor.h"

/// Elementwise work on codes (View::quantization) in the memory of CUDA device `device`, enqueued on `stream`.
namespace lamina::cuda {

/// output[i] = table[input[i]]; the output may be the input.
void look_up(int device, const std::array<std::uint8_t, 256>& table, const void* input, void* output,
             std::int64_t count, Stream stream);

/// On the current device, what networks have most: codes of floats, floats of codes, sums of two arrays of codes, and
/// products with codes for each channel of an image, [N, 1, C] or [1, 1, C]. False, and nothing is done, where it is
/// anything else. `axes`: detail::broadcast_walk of the views.
bool pointwise_of_codes(const PointwiseChain& chain, std::span<const detail::WalkAxis> axes,
                        std::span<const View> views, const View& result, std::span<const Tensor> inputs, Tensor& output,
                        Stream stream);

/// y = x scale + shift of what codes stand for, channels last, fewer than 2^31 elements; the input may be a slice.
void scale_and_shift_of_codes(int device, const View& view, const View& result, const void* input,
                              const float* scale,  // [channels]
                              const float* shift,  // [channels]
                              bool relu, void* output, Stream stream);

}  // namespace lamina::cuda
