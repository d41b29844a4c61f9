#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Elementwise work on channels-last activations [N, pixels, C] where some operands are a number for each channel,
/// [N, 1, C] or [1, 1, C], as squeeze-and-excite multiplies, or for each pixel, [N, pixels, 1]: 16 bytes at a time.
/// False, and nothing is done, where it is anything else, or other functions or types than elementwise.h has.
bool by_channel(const PointwiseChain& chain, std::span<const detail::WalkAxis> axes, std::span<const Tensor> inputs,
                Tensor& output, Stream stream);

}  // namespace lamina::cuda
