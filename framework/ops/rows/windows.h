#pragma once

#include <cstdint>
#include <vector>

#include "lamina/ops/expansion.h"

/// The windows of convolutions and poolings.
namespace lamina::detail {

/// What happens along one spatial dimension.
struct Window {
  std::int64_t in = 1;
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t begin = 0, end = 0;  ///< padding
  std::int64_t out = 1;

  /// What one window spans.
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
  /// What all of them span, from the padding's begin on.
  std::int64_t reach() const { return (out - 1) * stride + extent(); }
};

/// As layers for pictures count: `padding` on both sides; less than 1 if there is no window. With `ceil`, a last window
/// that begins inside the input or the padding before it counts too.
std::int64_t window_count(const Window& window, std::int64_t begin, std::int64_t end, bool ceil);

/// The attributes strides, dilations, pads and auto_pad for the dimensions of x behind N and C. `kernel` is empty where
/// the attribute kernel_shape says it; else the two must agree. Throws Error for what does not fit.
std::vector<Window> read_windows(Expansion& e, const Shape& x, std::vector<std::int64_t> kernel, bool ceil = false);

/// An attribute with a number for each spatial dimension, each at least `least`.
/// The attribute auto_pad; NOTSET where it is empty.
std::string read_auto_pad(Expansion& e);

std::vector<std::int64_t> spatial_numbers(Expansion& e, std::string_view name, std::size_t count, std::int64_t fallback,
                                          std::int64_t least);

/// The largest kernel, stride, dilation or padding.
constexpr std::int64_t largest_window = std::int64_t{1} << 26;

}  // namespace lamina::detail
