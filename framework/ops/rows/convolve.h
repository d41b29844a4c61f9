#pragma once

#include <vector>

#include "lamina/ops/expansion.h"
#include "lamina/ops/rows/windows.h"

namespace lamina::detail {

/// The cross-correlation of x [N, C, ...] of f32 with weights [O, C / groups, ...], over one, two or three spatial
/// dimensions. `bias` [O] may be undefined.
int convolve(Expansion& e, int x, const Tensor& weight, const Tensor& bias, std::vector<Window> windows, int groups);

}  // namespace lamina::detail
