#pragma once

#include "lamina/kernel/problems.h"

namespace lamina {

/// Squeeze and excitation (Hu et al., "Squeeze-and-Excitation Networks", 2018): each channel of an image times a factor
/// that two small layers make of the means of all its channels.
struct SqueezeExciteProblem {
  static constexpr std::string_view what = "squeeze and excitation";
  static constexpr bool of_convolutions = true;
  ConvProblem squeeze, excite;  ///< of images of one pixel: the means to fewer values, those to the factors
  /// The result is the image times the factors; otherwise the factors alone, [N, C, 1, 1], for whoever reads the image.
  bool multiplies = true;
  Quantization means = {}, between = {}, factors = {};  ///< of an image of codes, all of one type: how those are stored

  double flops() const { return squeeze.geometry.flops() + excite.geometry.flops(); }
};

}  // namespace lamina
