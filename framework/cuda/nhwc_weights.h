#pragma once

#include <vector>

#include "lamina/cuda/nhwc_arguments.h"

/// How the weights of the channels-last convolution lie in memory: host logic, without a CUDA call.
namespace lamina::cuda::nhwc {

/// The weights in the order the kernel reads them, rounded to the operand type: [blocks of 64 filters, steps, 64, 128
/// bytes], rows swizzled; zeros where the last block or slab of channels reaches past the matrix.
/// In fp32 each filter is scaled into the reach of the split, and `ends` says how.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Precision precision, int filter_blocks,
                                        const float* weight,                // [OC, C, KH, KW]
                                        std::vector<FilterRange>& ranges);  // [filter_blocks * 64] in fp32, else empty

}  // namespace lamina::cuda::nhwc
