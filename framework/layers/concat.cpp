#include "lamina/layers/concat.h"

#include "lamina/module/checks.h"

namespace lamina {

using detail::fail;

Attributes Concat::attributes() const { return {{"dim", std::int64_t{dim_}}}; }

Shape Concat::output_shape(std::span<const Shape> inputs) const {
  if (inputs.empty()) fail("concat: expected 1 or more inputs");
  const int dim = detail::dimension_of(op(), dim_, inputs[0]);
  Shape joined = inputs[0];
  for (const Shape& input : inputs.subspan(1)) {
    Shape same = input;
    if (input.rank() == joined.rank()) same.set(dim, inputs[0][dim]);
    if (same != inputs[0]) {
      fail("concat: expected inputs that differ in dimension ", dim, " only, got ", inputs[0], " and ", input);
    }
    if (input[dim] == batch || joined[dim] == batch) fail("concat: cannot join along the batch N before it is known");
    const auto sum = detail::checked_add(joined[dim], input[dim]);
    if (!sum) fail("concat: inputs of ", inputs[0], " and ", input, " are too large to join");
    joined.set(dim, *sum);
  }
  return joined;
}

DType Concat::output_dtype(std::span<const DType> inputs) const {
  for (const DType dtype : inputs) {
    if (dtype != inputs[0]) fail("concat: expected inputs of one type, got ", inputs[0], " and ", dtype);
  }
  return inputs[0];
}

ConcatProblem Concat::problem(std::span<const Shape> inputs) const {
  return {detail::dimension_of(op(), dim_, inputs[0])};
}

}  // namespace lamina
