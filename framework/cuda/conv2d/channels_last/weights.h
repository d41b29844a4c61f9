#pragma once

#include <vector>

#include "lamina/cuda/conv2d/channels_last/arguments.h"

/// How the weights of the channels-last convolution lie in memory: host logic, without a CUDA call.
namespace lamina::cuda::channels_last {

/// The weights in the order the kernel reads them, rounded to the operand type: [blocks of 64 filters, steps, 64, 128
/// bytes], rows swizzled; zeros where the last block or slab of channels reaches past the matrix.
/// For split and scaled operands each filter is multiplied by a power of two, and `ranges` says which; those of scaled
/// operands are ScaledWeights::shifts, of others `shifts` is not looked at.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Operand operand, int filter_blocks,
                                        const float* weight,                // [OC, C, KH, KW]
                                        std::vector<int> shifts,            // [OC], or empty
                                        std::vector<FilterRange>& ranges);  // [filter_blocks * 64], or empty

/// Whether weights may be multiplied as scaled words, and what their pixels must then keep to.
struct ScaledWeights {
  bool representable = false;  ///< shift_of_scaled finds one for every filter
  bool strict = true;          ///< ScaledRows::strict
  std::vector<int> shifts;     ///< [OC], the powers of two
};
ScaledWeights examine_scaled(const ConvGeometry& geometry, Operand operand, const float* weight);  // [OC, C, KH, KW]

}  // namespace lamina::cuda::channels_last
