#pragma once

#include "lamina/kernel/conv_sum.h"

namespace lamina {

/// What lies between the windows of two residual blocks: single pixels widened to a map that the shortcut reads later,
/// and that map narrowed again for the next block. Both maps are results; the wide one need not be read again.
struct BottleneckProblem {
  static constexpr std::string_view what = "bottleneck";
  static constexpr bool of_convolutions = true;
  ConvSumProblem wide;  ///< single pixels; its second convolution has no channels where there is none
  ConvProblem narrow;   ///< of single pixels of the wide map, to the second output

  bool sums() const { return wide.second.in_channels > 0; }
  double flops() const {
    return wide.first.geometry.flops() + (sums() ? wide.second.flops() : 0) + narrow.geometry.flops();
  }
};

}  // namespace lamina
