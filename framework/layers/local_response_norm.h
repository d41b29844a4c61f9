#pragma once

#include "lamina/kernel/local_response.h"
#include "lamina/module/layer.h"

namespace lamina {

struct LocalResponseNormOptions {
  int size = 5;  ///< neighbouring channels
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;
};

/// x / (k + alpha / size * the sum of squares over `size` neighbouring channels) ^ beta, as torch.nn.LocalResponseNorm
/// and Caffe's LRN compute it: channels c - size / 2 to c + (size - 1) / 2. Input and output [N, C, H, W].
class LAMINA_API LocalResponseNorm : public Layer<LocalResponseProblem> {
 public:
  /// Throws Error unless size is 1 or more.
  explicit LocalResponseNorm(const LocalResponseNormOptions& options = {});

  const LocalResponseNormOptions& options() const { return options_; }

  std::string_view op() const override { return "local_response_norm"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  LocalResponseProblem problem(std::span<const Shape> inputs) const override;

 private:
  LocalResponseNormOptions options_;
};

}  // namespace lamina
