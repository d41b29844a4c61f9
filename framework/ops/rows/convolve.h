#pragma once

#include <functional>
#include <vector>

#include "lamina/ops/expansion.h"
#include "lamina/ops/rows/windows.h"

namespace lamina::detail {

/// How an operand of codes is read: they are padded and moved as they are, and become floats last.
struct Reading {
  double padding = 0;
  std::function<int(int)> as_floats = {};
};

/// The cross-correlation of x [N, C, ...] of f32 with weights [O, C / groups, ...], over one, two or three spatial
/// dimensions. `bias` [O] may be undefined, and so may what the weights are in eight bits.
int convolve(Expansion& e, int x, const Tensor& weight, const Tensor& bias, std::vector<Window> windows, int groups,
             const EightBitWeights& eight = {}, const Reading& reading = {});

/// The same with what Conv's attributes say.
int convolve_as_said(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const EightBitWeights& eight,
                     const Reading& reading = {});

}  // namespace lamina::detail
