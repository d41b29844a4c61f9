#pragma once

#include "lamina/ops/expansion.h"

namespace lamina::detail {

/// The weights that node `weight` holds as they were before DequantizeLinear, output channels first, or last where they
/// are `turned`: of a matrix, whose rows and columns change places; and a bias, -1 for none, whose integers count if all
/// of it has some. Nothing if the weights were not in eight bits, with a scale for all or for each output channel.
EightBitWeights eight_bits(const Expansion& e, int weight, int bias, bool turned = false);

}  // namespace lamina::detail
