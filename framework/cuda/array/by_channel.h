#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// Elementwise work on channels-last activations where some operands are a number for each channel of an image,
/// [N, 1, C] beside [N, pixels, C], as squeeze-and-excite multiplies: 16 bytes at a time.
/// False, and nothing is done, where it is anything else, or other functions or types than elementwise.h has.
bool by_channel(const PointwiseChain& chain, std::span<const detail::WalkAxis> axes, std::span<const Tensor> inputs,
                Tensor& output, Stream stream);

}  // namespace lamina::cuda
