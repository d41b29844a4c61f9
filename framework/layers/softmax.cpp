#include "lamina/layers/softmax.h"

#include "lamina/module/checks.h"

namespace lamina {

Attributes Softmax::attributes() const { return {{"dim", std::int64_t{dim_}}}; }

Shape Softmax::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_input(op(), inputs);
  (void)detail::dimension_of(op(), dim_, input);
  return input;
}

SoftmaxProblem Softmax::problem(std::span<const Shape> inputs) const {
  return {detail::dimension_of(op(), dim_, inputs[0])};
}

}  // namespace lamina
