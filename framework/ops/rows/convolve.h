#pragma once

#include <vector>

#include "lamina/ops/expansion.h"
#include "lamina/ops/rows/windows.h"

namespace lamina::detail {

/// The cross-correlation of x [N, C, ...] of f32 with weights [O, C / groups, ...], over one, two or three spatial
/// dimensions. `bias` [O] may be undefined, and so may what the weights are in eight bits.
int convolve(Expansion& e, int x, const Tensor& weight, const Tensor& bias, std::vector<Window> windows, int groups,
             const EightBitWeights& eight = {});

/// The same with what Conv's attributes say.
int convolve_as_said(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const EightBitWeights& eight);

}  // namespace lamina::detail
