#pragma once

#include "lamina/images/preprocess.h"
#include "lamina/module/layer.h"

/// The modules that a Plan puts between those of the graph.
namespace lamina::detail {

/// Between a layer that gives one format and one that takes another: the same elements.
class Conversion final : public Layer<ConversionProblem> {
 public:
  std::string_view op() const override { return ConversionProblem::what; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  ConversionProblem problem(std::span<const Shape>) const override { return {}; }
};

/// Before the first layer of a Plan that takes photos: 8-bit pictures, u8 nhwc, normalised as `settings` says, rounded
/// once where the output is f16 or bf16. Input [N, 3, H, W].
class Normalization final : public Layer<NormalizationProblem> {
 public:
  /// Throws Error for settings that are no normalisation.
  explicit Normalization(const Preprocess& settings);

  std::string_view op() const override { return NormalizationProblem::what; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  NormalizationProblem problem(std::span<const Shape>) const override { return problem_; }

 private:
  NormalizationProblem problem_;
};

/// What is known of an activation, in another format.
Tensor converted_constant(const Tensor& constant, Layout layout, Format format);

}  // namespace lamina::detail
