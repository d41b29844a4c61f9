#pragma once

#include "lamina/kernel/problems.h"

namespace lamina {

/// A convolution of input 0 plus one of input 1, as a residual block begins whose shortcut is a convolution too: one
/// product over both, whose sums neither meet memory nor are rounded between.
struct ConvSumProblem {
  static constexpr std::string_view what = "sum of convolutions";
  static constexpr bool of_convolutions = true;
  ConvProblem first;          ///< its bias and its epilogue are the sum's
  ConvGeometry second;        ///< windows of one pixel without padding, to the same outputs
  Tensor second_weight = {};  ///< [OC, C, 1, 1]

  double flops() const { return first.geometry.flops() + second.flops(); }
};

}  // namespace lamina
