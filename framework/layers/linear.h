#pragma once

#include "lamina/module/layer.h"

namespace lamina {
namespace detail {
struct PerChannel;
}

struct LinearOptions {
  int in = 0;   ///< input features
  int out = 0;  ///< output features
  bool bias = true;
};

/// y = x W' + b as torch.nn.Linear: input [N, ..., in], weight [out, in], bias [out], output [N, ..., out].
class LAMINA_API Linear : public Layer<LinearProblem> {
 public:
  /// Throws Error unless both counts are 1 or more. The weights are undefined until they are set or loaded.
  explicit Linear(const LinearOptions& options);

  const LinearOptions& options() const { return options_; }
  const Tensor& weight() const { return parameter("weight"); }
  const Tensor& bias() const { return parameter("bias"); }
  /// Throws Error unless it is f32 on the CPU with the shape above.
  void set_weight(Tensor weight) { set_parameter("weight", std::move(weight)); }
  void set_bias(Tensor bias) { set_parameter("bias", std::move(bias)); }
  /// What the weights were before they were made f32. Factors of channels become their scales' from then on.
  void set_eight_bits(EightBitWeights eight) { eight_ = std::move(eight); }
  const EightBitWeights& eight_bits() const { return eight_; }

  /// This layer with a Flatten before it: input [N, ...] with `in` elements behind N, output [N, out]. What a Plan
  /// makes of the two, because a GPU need not bring an nhwc image into nchw order for it: the columns of the weights
  /// are brought into the image's order instead, once. Shares the parameters.
  std::shared_ptr<const Linear> after_flatten() const;

  std::string_view op() const override { return "linear"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  DType output_dtype(std::span<const DType> inputs) const override;
  double flops(std::span<const Shape> inputs) const override;
  /// Functions of one element that follow are done to the result before it is stored.
  /// So is the addition of a tensor, an input of its own; a known bias becomes the layer's, known factors its weights'.
  using Module::absorb;
  Absorbed absorb(const Module& next, std::span<const Operand> operands) const override;
  LinearProblem problem(std::span<const Shape> inputs) const override;
  bool pays(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;

 private:
  std::shared_ptr<const Linear> scaled(const detail::PerChannel& factors) const;

  LinearOptions options_;
  PointwiseChain chain_;  // of the epilogue
  bool flattens_ = false;
  EightBitWeights eight_;
};

}  // namespace lamina
