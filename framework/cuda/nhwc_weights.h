#pragma once

#include <vector>

#include "lamina/tensor/conv_geometry.h"

/// How the weights of the channels-last convolution lie in memory: host logic, without a CUDA call.
namespace lamina::cuda::nhwc {

/// The weights in the order the kernel reads them, rounded to the operand type: [blocks of 64 filters, steps, 64, 128
/// bytes], rows swizzled; zeros where the last block or slab of channels reaches past the matrix.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Precision precision, int filter_blocks,
                                        const float* weight);  // [OC, C, KH, KW]

}  // namespace lamina::cuda::nhwc
