#pragma once

#include "lamina/layers/module.h"

namespace lamina {

struct LinearOptions {
  int in = 0;   ///< input features
  int out = 0;  ///< output features
  bool bias = true;
};

/// y = x W' + b as torch.nn.Linear: input [N, ..., in], weight [out, in], bias [out], output [N, ..., out].
class LAMINA_API Linear : public Module {
 public:
  /// Throws Error unless both counts are 1 or more. The weights are undefined until they are set or loaded.
  explicit Linear(const LinearOptions& options);

  const LinearOptions& options() const { return options_; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  /// Throws Error unless it is f32 on the CPU with the shape above.
  void set_weight(Tensor weight);
  void set_bias(Tensor bias);

  std::string_view op() const override { return "linear"; }
  std::vector<Parameter> parameters() override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs) const override;
  bool fuses_relu() const override { return true; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;

 private:
  LinearOptions options_;
  Tensor weight_;
  Tensor bias_;
};

/// A Flatten and the Linear after it: input [N, ...] with `in` elements behind N, output [N, out]. What a Plan makes of
/// the two, because a GPU need not bring an nhwc image into nchw order for it: the columns of the weights are brought
/// into the image's order instead, once.
class LAMINA_API FlattenedLinear final : public Linear {
 public:
  /// Shares the parameters.
  explicit FlattenedLinear(const Linear& linear) : Linear(linear) {}

  Shape output_shape(std::span<const Shape> inputs) const override;
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;
};

}  // namespace lamina
