#pragma once

#include <vector>

#include "lamina/module/layer.h"

namespace lamina {

struct BatchNorm2dOptions {
  int channels = 0;
  double eps = 1e-5;
  bool affine = true;  ///< there are a weight and a bias; else they are 1 and 0
};

/// (x - running_mean) / sqrt(running_var + eps) * weight + bias, channel by channel, as torch.nn.BatchNorm2d does
/// when it does not train. Input and output [N, C, H, W], parameters [C].
///
/// Compiling folds it into a convolution before it.
class LAMINA_API BatchNorm2d : public Layer<AffineProblem> {
 public:
  /// Throws Error unless there is a channel and eps is not negative.
  explicit BatchNorm2d(const BatchNorm2dOptions& options);

  const BatchNorm2dOptions& options() const { return options_; }

  /// y = x * scale + shift, a number for each channel.
  struct Coefficients {
    std::vector<double> scale, shift;
  };
  /// Throws Error if a parameter was never set.
  Coefficients coefficients() const;

  std::string_view op() const override { return "batch_norm2d"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  int in_place(const Preparation&) const override { return 0; }
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  AffineProblem problem(std::span<const Shape> inputs) const override;

 private:
  BatchNorm2dOptions options_;
  PointwiseChain chain_;
};

}  // namespace lamina
