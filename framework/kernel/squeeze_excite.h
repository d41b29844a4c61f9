#pragma once

#include <optional>

#include "lamina/kernel/problems.h"

namespace lamina {

/// Each channel of an image times a factor that is made of a number of each of its channels: of their means by two
/// small layers (squeeze and excitation, Hu et al., 2018), or of the roots of the sums of their squares by a norm of
/// all of them (global response norm: Woo et al., "ConvNeXt V2", 2023).
struct SqueezeExciteProblem {
  static constexpr std::string_view what = "squeeze and excitation";
  static constexpr bool of_convolutions = true;
  /// Of images of one pixel: the means, or those of the first channels, to fewer values, and those to the factors.
  ConvProblem squeeze = {}, excite = {};
  /// The result is the image times the factors; otherwise the factors alone, [N, C, 1, 1], for whoever reads the image:
  /// of codes in f32, as ConvProblem::prologue says.
  bool multiplies = true;
  std::optional<NormProblem> norm = {};  ///< in place of the two
  /// Of an image of codes, all of one type: how those, and the product, are stored.
  Quantization means = {}, between = {}, factors = {}, product = {};

  double flops() const { return squeeze.geometry.flops() + excite.geometry.flops(); }
};

}  // namespace lamina
