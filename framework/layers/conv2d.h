#pragma once

#include <optional>

#include "lamina/layers/pool2d.h"
#include "lamina/module/layer.h"

namespace lamina {
namespace detail {
struct PerChannel;
}

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
class LAMINA_API Conv2d : public Layer<ConvProblem> {
 public:
  /// Throws Error unless channels, kernel, stride, dilation and groups are 1 or more, padding 0 or more, and both
  /// channel counts divisible by groups. The weights are undefined until they are set or loaded.
  explicit Conv2d(const Conv2dOptions& options);

  const Conv2dOptions& options() const { return options_; }
  const Tensor& weight() const { return parameter("weight"); }
  const Tensor& bias() const { return parameter("bias"); }
  /// Throws Error unless it is f32 on the CPU with the shape above.
  void set_weight(Tensor weight) { set_parameter("weight", std::move(weight)); }
  void set_bias(Tensor bias) { set_parameter("bias", std::move(bias)); }
  /// What the weights were before they were made f32. Factors of channels become their scales' from then on.
  void set_eight_bits(EightBitWeights eight) { eight_ = std::move(eight); }
  const EightBitWeights& eight_bits() const { return eight_; }

  /// All the numbers of this convolution for one input shape [N, C, H, W]. Throws Error if it does not fit.
  ConvGeometry geometry(const Shape& input) const;

  std::string_view op() const override { return "conv2d"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  DType output_dtype(std::span<const DType> inputs) const override;
  double flops(std::span<const Shape> inputs) const override;
  /// A BatchNorm2d, or known factors and summands of the channels, become part of the weights and the bias; functions
  /// of the elements, additions of other inputs among them, and then a max pooling are done to the result before it is
  /// stored.
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  /// The same with other weights and maybe a bias; if `scaled`, the channels of the first input are multiplied by the
  /// second, [N, in, 1, 1], as squeeze-and-excite does.
  std::shared_ptr<const Conv2d> with_factors(Tensor weight, Tensor bias, bool scaled) const;
  /// The same of an image without those zeros around it. Null if it is of codes.
  std::shared_ptr<const Conv2d> with_padding(Size2d before, Size2d behind) const;
  /// The same of as many filters as `weight` has, and, if it is depthwise, of as many channels.
  std::shared_ptr<const Conv2d> with_filters(Tensor weight, Tensor bias) const;
  /// The same without the last of the functions that are done to the result.
  std::shared_ptr<const Conv2d> without_last_function() const;
  /// The same without the taps that see nothing but the padding of images of that shape (kernel/rules/live_window.h).
  /// Null if there are none, or no parameters yet.
  std::shared_ptr<const Conv2d> with_live_window(const Shape& input) const;
  ConvProblem problem(std::span<const Shape> inputs) const override;
  bool pays(const Preparation& preparation) const override;
  /// Over a residual, where the kernel can.
  int in_place(const Preparation& preparation) const override;

 private:
  std::shared_ptr<const Conv2d> scaled(const detail::PerChannel& factors) const;
  std::shared_ptr<Conv2d> with(Conv2dOptions options, Tensor weight, Tensor bias) const;

  Conv2dOptions options_;
  Size2d more_ = 0;      // rows and columns of zeros behind the padding; less than 0: so many of that are not there
  bool scaled_ = false;  // by input 1
  EightBitWeights eight_;
  PointwiseChain chain_;           // of the epilogue
  std::optional<MaxPool2d> pool_;  // after it
};

/// The names of the kernels that `device` has for convolutions, the fastest first.
LAMINA_API std::vector<std::string_view> conv_algorithms(DeviceType device);
/// The one of them that `name` asks for: of that name, or the kernel that took in one of that name; empty: none.
LAMINA_API std::string_view conv_algorithm(DeviceType device, std::string_view name);

}  // namespace lamina
