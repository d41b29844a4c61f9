#pragma once

#include <span>
#include <string_view>

#include "lamina/base/error.h"
#include "lamina/tensor/tensor.h"

/// What layers ask of their inputs, with the messages of those that do not fit.
namespace lamina::detail {

inline const Shape& lone_input(std::string_view op, std::span<const Shape> inputs) {
  if (inputs.size() != 1) fail(op, ": expected 1 input, got ", inputs.size());
  return inputs[0];
}

/// An image [N, C, H, W] with pixels, small enough for kernels that count them in int.
inline const Shape& lone_image(std::string_view op, std::span<const Shape> inputs) {
  const Shape& input = lone_input(op, inputs);
  if (input.rank() != 4) fail(op, ": expected input [N, C, H, W], got ", input);
  constexpr std::int64_t largest = 1 << 30;
  if (input[1] < 1 || input[2] < 1 || input[3] < 1 || input[1] > largest || input[2] > largest || input[3] > largest) {
    fail(op, ": expected an image of 1x1 or more, got input ", input);
  }
  return input;
}

/// Dimension `dim` of `shape` counted from the front; negative ones count from the end.
inline int dimension_of(std::string_view op, int dim, const Shape& shape) {
  const auto rank = static_cast<int>(shape.rank());
  if (dim < -rank || dim >= rank) fail(op, ": there is no dimension ", dim, " in input ", shape);
  return dim < 0 ? dim + rank : dim;
}

}  // namespace lamina::detail
