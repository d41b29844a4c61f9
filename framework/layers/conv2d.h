#pragma once

#include "lamina/layers/module.h"

namespace lamina {

struct Conv2dOptions {
  int in = 0;         ///< input channels
  int out = 0;        ///< output channels: filters
  Size2d kernel = 1;  ///< height and width, as for all below
  Size2d stride = 1;
  Size2d padding = 0;  ///< zeros added on every side
  Size2d dilation = 1;
  int groups = 1;  ///< input and output channels are split into this many independent convolutions
  bool bias = true;
};

/// Cross-correlation as torch.nn.Conv2d computes it:
///   input [N, in, H, W], weight [out, in / groups, KH, KW], bias [out], output [N, out, OH, OW],
///   OH = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1, and OW alike.
class LAMINA_API Conv2d : public Module {
 public:
  /// Throws Error unless channels, kernel, stride, dilation and groups are 1 or more, padding 0 or more, and both
  /// channel counts divisible by groups. The weights are undefined until they are set or loaded.
  explicit Conv2d(const Conv2dOptions& options);

  const Conv2dOptions& options() const { return options_; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  /// Throws Error unless it is f32 on the CPU with the shape above.
  void set_weight(Tensor weight);
  void set_bias(Tensor bias);

  /// All the numbers of this convolution for one input shape [N, C, H, W]. Throws Error if it does not fit.
  ConvGeometry geometry(const Shape& input) const;

  std::string_view op() const override { return "conv2d"; }
  Attributes attributes() const override;
  std::vector<Parameter> parameters() override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs) const override;
  bool fuses_relu() const override { return true; }
  /// A BatchNorm2d becomes part of the weights and the bias.
  std::shared_ptr<Module> followed_by(const Module& next) const override;
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;

 private:
  Shape weight_shape() const;

  Conv2dOptions options_;
  Tensor weight_;
  Tensor bias_;
};

/// The algorithms that `device` offers, in the order they are taught.
LAMINA_API std::span<const ConvAlgorithm> conv_algorithms(DeviceType device);

}  // namespace lamina
