#include "lamina/layers/local_response_norm.h"

#include "lamina/module/checks.h"

namespace lamina {

LocalResponseNorm::LocalResponseNorm(const LocalResponseNormOptions& options) : options_(options) {
  if (options_.size < 1) detail::fail("local_response_norm: expected a size of 1 or more, got ", options_.size);
}

Attributes LocalResponseNorm::attributes() const {
  return {{"size", std::int64_t{options_.size}}, {"alpha", options_.alpha}, {"beta", options_.beta}, {"k", options_.k}};
}

Shape LocalResponseNorm::output_shape(std::span<const Shape> inputs) const { return detail::lone_image(op(), inputs); }

LocalResponseProblem LocalResponseNorm::problem(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  return {{.images = input[0],
           .channels = static_cast<int>(input[1]),
           .pixels = input[2] * input[3],
           .size = options_.size,
           .alpha = static_cast<float>(options_.alpha),
           .beta = static_cast<float>(options_.beta),
           .k = static_cast<float>(options_.k)}};
}

}  // namespace lamina
