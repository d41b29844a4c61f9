#pragma once

#include <functional>

#include "lamina/ops/expansion.h"

namespace lamina::detail {

/// The weights that node `weight` holds as they were before DequantizeLinear, output channels first, or last where they
/// are `turned`: of a matrix, whose rows and columns change places; and a bias, -1 for none, whose integers count if
/// all of it has some. Nothing if the weights were not in eight bits, with a scale for all or for each output channel.
EightBitWeights eight_bits(const Expansion& e, int weight, int bias, bool turned = false);

/// Weights of u8 or i8, rows [out, ...], or a matrix of which they are the columns (`turned`); as many scales and zero
/// points of i32 as rows, or one. u8 becomes i8, and their zero points 128 less. Throws Error if they do not fit.
EightBitWeights in_i8(const Expansion& e, const Tensor& values, const Tensor& scale, const Tensor& zero_point,
                      bool turned);

/// scale (w - zero_point)
Tensor meaning(const EightBitWeights& eight);

/// Sums of whole numbers, of which `sums_of` makes those along `axis` from weights. Zero points of the weights are
/// taken off what comes out, as often as a filter of ones says that is more: kernels that are fast know none.
int less_weights_zero_points(Expansion& e, const EightBitWeights& eight, int axis,
                             const std::function<int(const EightBitWeights&)>& sums_of);

/// What DynamicQuantizeLinear makes of a node of floats.
struct DynamicCodes {
  int values, scale, zero_point;
};
DynamicCodes dynamic_codes(Expansion& e, int x);

/// Sums of the products of integers a [..., K], of a zero point (-1: 0) that may be what only a run knows, with weights
/// [N, K]: i32.
int integer_linear(Expansion& e, int a, int a_zero, EightBitWeights eight);

}  // namespace lamina::detail
