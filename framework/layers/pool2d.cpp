#include "lamina/layers/pool2d.h"

#include "lamina/module/checks.h"

namespace lamina {
namespace {

using detail::fail;

void require_pooling(std::string_view op, Size2d kernel, Size2d stride, Size2d padding, Size2d dilation) {
  detail::require_window(op, kernel, stride, padding, dilation);
  const auto half = [](int k, int d) { return (std::int64_t{d} * (k - 1) + 1) / 2; };
  if (padding.height > half(kernel.height, dilation.height) || padding.width > half(kernel.width, dilation.width)) {
    fail(op, ": expected a padding of at most half the kernel ", to_string(kernel), ", got ", to_string(padding));
  }
}

struct Side {
  std::string_view name;
  std::int64_t extent;
  int kernel, stride, padding, dilation;
};

/// Length of one side of the output, by PyTorch's rule for ceil_mode.
int output_extent(std::string_view op, const Side& s, bool ceil_mode, const Shape& input) {
  const std::int64_t window = std::int64_t{s.dilation} * (s.kernel - 1) + 1;
  const std::int64_t padded = s.extent + 2 * std::int64_t{s.padding};
  if (window > detail::largest_extent || padded > detail::largest_extent) {
    fail(op, ": a kernel of ", s.name, ' ', window, " over a padded input of ", s.name, ' ', padded, " is too large");
  }
  const std::int64_t room = padded - window;
  std::int64_t result = 0;
  if (room >= 0) {
    result = room / s.stride + 1;
    if (ceil_mode && room % s.stride != 0) ++result;
  } else if (ceil_mode && -room < s.stride) {
    result = 1;  // what rounding up a negative quotient gives
  }
  // The last window must begin before the padding at the end.
  if (ceil_mode && (result - 1) * s.stride >= s.extent + s.padding) --result;
  if (result < 1) {
    fail(op, ": kernel of ", s.name, ' ', window, " is larger than the padded input of ", s.name, ' ', padded,
         " (input ", input, ')');
  }
  return static_cast<int>(result);
}

/// Everything but `count_padding`.
PoolGeometry window_geometry(std::string_view op, const Shape& input, Size2d kernel, Size2d stride, Size2d padding,
                             Size2d dilation, bool ceil_mode) {
  (void)detail::lone_image(op, {&input, 1});
  PoolGeometry g;
  g.planes = (input[0] == lamina::batch ? 1 : input[0]) * input[1];
  g.in_height = static_cast<int>(input[2]);
  g.in_width = static_cast<int>(input[3]);
  g.kernel_height = kernel.height;
  g.kernel_width = kernel.width;
  g.padding_height = padding.height;
  g.padding_width = padding.width;
  g.out_height = output_extent(op, {"height", input[2], kernel.height, stride.height, padding.height, dilation.height},
                               ceil_mode, input);
  g.out_width = output_extent(op, {"width", input[3], kernel.width, stride.width, padding.width, dilation.width},
                              ceil_mode, input);
  // After the check of the padding, so that nothing overflows.
  g.stride_height = detail::step_within(stride.height, input[2] + 2 * padding.height);
  g.stride_width = detail::step_within(stride.width, input[3] + 2 * padding.width);
  g.dilation_height = kernel.height == 1 ? 1 : dilation.height;
  g.dilation_width = kernel.width == 1 ? 1 : dilation.width;
  detail::require_countable(op, "an output", input, {g.planes, g.out_height, g.out_width});
  return g;
}

std::vector<std::int64_t> pair(Size2d size) { return {size.height, size.width}; }

}  // namespace

Shape Pool2d::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_input(op(), inputs);
  const PoolGeometry g = geometry(input);
  return {input[0], input[1], g.out_height, g.out_width};
}

MaxPool2d::MaxPool2d(const MaxPool2dOptions& options) : Pool2d(PoolKind::largest), options_(options) {
  if (options_.stride == Size2d(0)) options_.stride = options_.kernel;
  require_pooling(op(), options_.kernel, options_.stride, options_.padding, options_.dilation);
}

PoolGeometry MaxPool2d::geometry(const Shape& input) const {
  const auto& o = options_;
  return window_geometry(op(), input, o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
}

Attributes MaxPool2d::attributes() const {
  const auto& o = options_;
  return {{"kernel", pair(o.kernel)},
          {"stride", pair(o.stride)},
          {"padding", pair(o.padding)},
          {"dilation", pair(o.dilation)},
          {"ceil_mode", o.ceil_mode}};
}

AvgPool2d::AvgPool2d(const AvgPool2dOptions& options) : Pool2d(PoolKind::average), options_(options) {
  if (options_.stride == Size2d(0)) options_.stride = options_.kernel;
  require_pooling(op(), options_.kernel, options_.stride, options_.padding, 1);
}

PoolGeometry AvgPool2d::geometry(const Shape& input) const {
  const auto& o = options_;
  PoolGeometry g = window_geometry(op(), input, o.kernel, o.stride, o.padding, 1, o.ceil_mode);
  g.count_padding = o.count_include_pad;
  return g;
}

Attributes AvgPool2d::attributes() const {
  const auto& o = options_;
  return {{"kernel", pair(o.kernel)},
          {"stride", pair(o.stride)},
          {"padding", pair(o.padding)},
          {"ceil_mode", o.ceil_mode},
          {"count_include_pad", o.count_include_pad}};
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output) : Pool2d(PoolKind::adaptive), output_(output) {
  if (output.height < 1 || output.width < 1) {
    fail(op(), ": expected an output of 1 or more, got ", to_string(output));
  }
}

PoolGeometry AdaptiveAvgPool2d::geometry(const Shape& input) const {
  PoolGeometry g = window_geometry(op(), input, 1, 1, 0, 1, false);
  if (output_.height > detail::largest_extent || output_.width > detail::largest_extent) {
    fail(op(), ": an output of ", to_string(output_), " is too large");
  }
  detail::require_countable(op(), "an output", input, {g.planes, output_.height, output_.width});
  g.out_height = output_.height;
  g.out_width = output_.width;
  return g;
}

Attributes AdaptiveAvgPool2d::attributes() const { return {{"output", pair(output_)}}; }

bool AdaptiveAvgPool2d::is_view(std::span<const Shape> inputs) const {
  return inputs[0][2] == output_.height && inputs[0][3] == output_.width;
}

bool AdaptiveAvgPool2d::pays(const Preparation& preparation) const {
  return is_view({&preparation.input().shape, 1}) ? preparation.keeps_format() : Layer::pays(preparation);
}

}  // namespace lamina
