#pragma once

#include "lamina/kernel/problems.h"

namespace lamina {

/// A convolution and one of its result, with a filter for each channel, that nobody else reads: as a mobile network's
/// block begins. What lies between them need not meet memory as a whole.
struct ConvPairProblem {
  static constexpr std::string_view what = "convolution and depthwise convolution";
  static constexpr bool of_convolutions = true;
  ConvProblem first, second;
  Quantization between = {};  ///< of the first's result, if both are of codes, all of one type

  double flops() const { return first.geometry.flops() + second.geometry.flops(); }
};

}  // namespace lamina
