#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/module/attributes.h"
#include "lamina/tensor/tensor.h"

/// Checks that layers make of their inputs, and the errors for inputs that do not fit.
namespace lamina::detail {

/// Kernels compute positions in a padded image, and a little beyond it, as int.
inline constexpr std::int64_t largest_extent = std::numeric_limits<int>::max() / 4;

/// Kernels multiply counts of elements by bytes, by tiles and by threads, in 64 bits.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 48;

/// Throws Error if these extents, 0 or more and the batch 1 where it is not known, make more than `max_elements`.
inline void require_countable(std::string_view op, std::string_view what, const Shape& input,
                              std::initializer_list<std::int64_t> extents) {
  if (product_up_to(max_elements, extents)) return;
  fail(op, ": ", what, " of more than ", max_elements, " elements is too large (input ", input, ')');
}

/// A stride or dilation along an image of `padded` elements, limited: a longer step leaves the image just as well, and
/// would overflow.
inline int step_within(int step, std::int64_t padded) { return static_cast<int>(std::min<std::int64_t>(step, padded)); }

/// Throws Error unless kernel, stride and dilation are 1 or more, and the padding 0 or more.
inline void require_window(std::string_view op, Size2d kernel, Size2d stride, Size2d padding, Size2d dilation) {
  const auto require = [&](int least, Size2d size, std::string_view what) {
    if (size.height >= least && size.width >= least) return;
    fail(op, ": expected a ", what, " of ", least, " or more, got ", to_string(size));
  };
  require(1, kernel, "kernel");
  require(1, stride, "stride");
  require(0, padding, "padding");
  require(1, dilation, "dilation");
}

inline const Shape& lone_input(std::string_view op, std::span<const Shape> inputs) {
  if (inputs.size() != 1) fail(op, ": expected 1 input, got ", inputs.size());
  return inputs[0];
}

/// An image [N, C, H, W] with pixels, small enough for kernels that count them in int.
inline const Shape& lone_image(std::string_view op, std::span<const Shape> inputs) {
  const Shape& input = lone_input(op, inputs);
  if (input.rank() != 4) fail(op, ": expected input [N, C, H, W], got ", input);
  if (input[1] < 1 || input[2] < 1 || input[3] < 1) fail(op, ": expected an image of 1x1 or more, got input ", input);
  if (input[1] > largest_extent || input[2] > largest_extent || input[3] > largest_extent) {
    fail(op, ": the image is too large (input ", input, ')');
  }
  require_countable(op, "an input", input, {input[0] == batch ? 1 : input[0], input[1], input[2], input[3]});
  return input;
}

/// Dimension `dim` of `shape` counted from the front; negative ones count from the end.
inline int dimension_of(std::string_view op, int dim, const Shape& shape) {
  const auto rank = static_cast<int>(shape.rank());
  if (dim < -rank || dim >= rank) fail(op, ": there is no dimension ", dim, " in input ", shape);
  return dim < 0 ? dim + rank : dim;
}

}  // namespace lamina::detail
