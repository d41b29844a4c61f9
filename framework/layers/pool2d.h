#pragma once

#include "lamina/module/layer.h"

namespace lamina {

/// What poolings have in common: windows over images [N, C, H, W].
class LAMINA_API Pool2d : public Layer<PoolProblem> {
 public:
  /// All the numbers of this pooling for one input shape [N, C, H, W]. Throws Error if it does not fit.
  virtual PoolGeometry geometry(const Shape& input) const = 0;

  Shape output_shape(std::span<const Shape> inputs) const override;
  PoolProblem problem(std::span<const Shape> inputs) const override { return {kind_, geometry(inputs[0])}; }

 protected:
  explicit Pool2d(PoolKind kind) : kind_(kind) {}

 private:
  PoolKind kind_;
};

struct MaxPool2dOptions {
  Size2d kernel = 1;   ///< height and width, as for all below
  Size2d stride = 0;   ///< 0: the kernel's size
  Size2d padding = 0;  ///< cells of -inf on every side, at most half a kernel
  Size2d dilation = 1;
  bool ceil_mode = false;  ///< a last window that begins inside the input or the padding before it counts too
};

/// The largest value of each window, as torch.nn.MaxPool2d: NaN if there is one in it.
///   input [N, C, H, W], output [N, C, OH, OW],
///   OH = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, or ceil, and OW alike.
class LAMINA_API MaxPool2d : public Pool2d {
 public:
  /// Throws Error unless kernel, stride and dilation are 1 or more and the padding 0 to half a kernel.
  explicit MaxPool2d(const MaxPool2dOptions& options);

  const MaxPool2dOptions& options() const { return options_; }
  PoolGeometry geometry(const Shape& input) const override;

  std::string_view op() const override { return "max_pool2d"; }
  Attributes attributes() const override;

 private:
  MaxPool2dOptions options_;
};

struct AvgPool2dOptions {
  Size2d kernel = 1;
  Size2d stride = 0;              ///< 0: the kernel's size
  Size2d padding = 0;             ///< zeros on every side, at most half a kernel
  bool ceil_mode = false;         ///< a last window that begins inside the input or the padding before it counts too
  bool count_include_pad = true;  ///< the padding counts in the divisor
};

/// The mean of each window, as torch.nn.AvgPool2d. Shapes as for MaxPool2d.
class LAMINA_API AvgPool2d : public Pool2d {
 public:
  /// Throws Error unless kernel and stride are 1 or more and the padding 0 to half a kernel.
  explicit AvgPool2d(const AvgPool2dOptions& options);

  const AvgPool2dOptions& options() const { return options_; }
  PoolGeometry geometry(const Shape& input) const override;

  std::string_view op() const override { return "avg_pool2d"; }
  Attributes attributes() const override;

 private:
  AvgPool2dOptions options_;
};

/// Means over windows chosen so that the output has the wanted size, as torch.nn.AdaptiveAvgPool2d:
///   input [N, C, H, W], output [N, C, OH, OW], row i from floor(i H / OH) to ceil((i + 1) H / OH).
class LAMINA_API AdaptiveAvgPool2d : public Pool2d {
 public:
  /// Throws Error unless both are 1 or more.
  explicit AdaptiveAvgPool2d(Size2d output);

  Size2d output() const { return output_; }
  PoolGeometry geometry(const Shape& input) const override;

  std::string_view op() const override { return "adaptive_avg_pool2d"; }
  /// Where the image has the wanted size already.
  bool is_view(std::span<const Shape> inputs) const override;
  Attributes attributes() const override;
  bool pays(const Preparation& preparation) const override;

 private:
  Size2d output_;
};

}  // namespace lamina
