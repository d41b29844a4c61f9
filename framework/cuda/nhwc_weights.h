#pragma once

#include <vector>

#include "lamina/cuda/nhwc_arguments.h"

/// How the weights of the channels-last convolution lie in memory: host logic, without a CUDA call.
namespace lamina::cuda::nhwc {

/// The weights in the order the kernel reads them, rounded to the operand type: [blocks of 64 filters, steps, 64, 128
/// bytes], rows swizzled; zeros where the last block or slab of channels reaches past the matrix.
/// For split and scaled operands each filter is multiplied by a power of two, and `ranges` says which.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Operand operand, int filter_blocks,
                                        const float* weight,                // [OC, C, KH, KW]
                                        std::vector<FilterRange>& ranges);  // [filter_blocks * 64], or empty

/// Whether weights may be multiplied as scaled words, and what their pixels must then keep to.
struct ScaledWeights {
  bool representable = false;  ///< all are finite, and the words of none has lost bits
  bool strict = true;          ///< ScaledRows::strict
};
ScaledWeights examine_scaled(const ConvGeometry& geometry, Operand operand, const float* weight);  // [OC, C, KH, KW]

}  // namespace lamina::cuda::nhwc
