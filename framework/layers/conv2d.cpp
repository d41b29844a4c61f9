#include "lamina/layers/conv2d.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/live_window.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/module/checks.h"
#include "lamina/module/turned.h"

namespace lamina {
namespace {

using detail::largest_extent;

std::int64_t padded(std::int64_t extent, int padding) { return extent + 2 * std::int64_t{padding}; }

/// Throws Error if what is read, written or added up is more than kernels can count.
void require_countable(const ConvGeometry& g, const Shape& input) {
  detail::require_countable(
      "conv2d", "a padded input", input,
      {g.batch, g.in_channels, padded(g.in_height, g.padding_height), padded(g.in_width, g.padding_width)});
  detail::require_countable("conv2d", "an output", input, {g.batch, g.out_channels, g.out_height, g.out_width});
  constexpr std::int64_t max_terms = std::int64_t{1} << 56;
  if (!detail::product_up_to(max_terms, {g.output_size(), g.group_in_channels(), g.kernel_height, g.kernel_width})) {
    detail::fail("conv2d: more than ", max_terms, " multiplications are too many (input ", input, ')');
  }
}

/// Length of one side of the output, or a message about why there is none.
int output_extent(std::string_view side, const Shape& input, std::int64_t extent, int kernel, int stride, int padding,
                  int more, int dilation) {
  const std::int64_t window = std::int64_t{dilation} * (kernel - 1) + 1;
  const std::int64_t room = padded(extent, padding) + more;
  if (window > room) {
    detail::fail("conv2d: kernel of ", side, ' ', window, " (dilation included) is larger than the padded input of ",
                 side, ' ', room, " (input ", input, ')');
  }
  if (room > largest_extent) detail::fail("conv2d: a padded input of ", side, ' ', room, " is too large");
  const std::int64_t result = (room - window) / stride + 1;
  return static_cast<int>(result);
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  const auto& [in, out, kernel, stride, padding, dilation, groups, bias] = options_;
  if (in < 1 || out < 1) detail::fail("conv2d: expected 1 or more channels, got ", in, " in and ", out, " out");
  detail::require_window(op(), kernel, stride, padding, dilation);
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    detail::fail("conv2d: expected groups that divide ", in, " input and ", out, " output channels, got ", groups);
  }
  add_parameter("weight", {out, in / groups, kernel.height, kernel.width});
  if (bias) add_parameter("bias", {out});
}

Attributes Conv2d::attributes() const {
  const auto pair = [](Size2d size) { return std::vector<std::int64_t>{size.height, size.width}; };
  return {{"stride", pair(options_.stride)},
          {"padding", pair(options_.padding)},
          {"dilation", pair(options_.dilation)},
          {"groups", std::int64_t{options_.groups}}};
}

ConvGeometry Conv2d::geometry(const Shape& input) const {
  if (input.rank() != 4) detail::fail("conv2d: expected input [N, C, H, W], got ", input);
  if (input[1] != options_.in) {
    detail::fail("conv2d: expected ", options_.in, " input channels, got ", input[1], " (input ", input, ')');
  }
  if (input[2] < 1 || input[3] < 1) detail::fail("conv2d: expected an image of 1x1 or more, got input ", input);
  if (input[2] > largest_extent || input[3] > largest_extent) {
    detail::fail("conv2d: the image is too large (input ", input, ')');
  }
  const auto& o = options_;
  ConvGeometry g;
  g.batch = input[0] == lamina::batch ? 1 : input[0];
  g.in_channels = o.in;
  g.in_height = static_cast<int>(input[2]);
  g.in_width = static_cast<int>(input[3]);
  g.out_channels = o.out;
  g.out_height = output_extent("height", input, input[2], o.kernel.height, o.stride.height, o.padding.height,
                               more_.height, o.dilation.height);
  g.out_width = output_extent("width", input, input[3], o.kernel.width, o.stride.width, o.padding.width, more_.width,
                              o.dilation.width);
  g.kernel_height = o.kernel.height;
  g.kernel_width = o.kernel.width;
  g.padding_height = o.padding.height;
  g.padding_width = o.padding.width;
  const std::int64_t height = padded(g.in_height, g.padding_height) + more_.height,
                     width = padded(g.in_width, g.padding_width) + more_.width;
  g.stride_height = detail::step_within(o.stride.height, height);
  g.stride_width = detail::step_within(o.stride.width, width);
  g.dilation_height = detail::step_within(o.dilation.height, height);
  g.dilation_width = detail::step_within(o.dilation.width, width);
  g.groups = o.groups;
  require_countable(g, input);
  return g;
}

Shape Conv2d::output_shape(std::span<const Shape> inputs) const {
  const int count = std::max(inputs_of(chain_), scaled_ ? 2 : 1);
  if (static_cast<int>(inputs.size()) != count) {
    detail::fail("conv2d: expected ", count, count == 1 ? " input" : " inputs", ", got ", inputs.size());
  }
  const ConvGeometry g = geometry(inputs[0]);
  const Shape map = {inputs[0][0], g.out_channels, g.out_height, g.out_width};
  return pool_ ? pool_->output_shape({&map, 1}) : map;
}

DType Conv2d::output_dtype(std::span<const DType> inputs) const {
  return eight_.whole ? DType::i32 : Module::output_dtype(inputs);
}

double Conv2d::flops(std::span<const Shape> inputs) const { return geometry(inputs[0]).flops(); }

ConvProblem Conv2d::problem(std::span<const Shape> inputs) const {
  ConvProblem result = {.geometry = geometry(inputs[0]),
                        .weight = weight(),
                        .bias = bias(),
                        .epilogue = {.chain = chain_},
                        .eight = eight_};
  if (scaled_) result.prologue = {{.function = Pointwise::mul, .operand = 1}};
  const ConvGeometry& g = result.geometry;
  if (pool_) result.epilogue.pool = pool_->geometry({g.batch, g.out_channels, g.out_height, g.out_width});
  return result;
}

Module::Absorbed Conv2d::absorb(const Module& next, std::span<const Operand> operands) const {
  if (pool_ || eight_.whole) return {};
  if (const auto* norm = dynamic_cast<const BatchNorm2d*>(&next)) {
    const auto [scale, shift] = norm->coefficients();
    return {.module = scaled({.scale = scale, .shift = shift})};
  }
  if (const auto factors = detail::per_channel(next, operands, options_.out, 2)) {
    if (auto folded = scaled(*factors)) return {.module = std::move(folded), .parameters = true};
  }
  auto longer = std::make_shared<Conv2d>(*this);
  if (const auto* pool = dynamic_cast<const MaxPool2d*>(&next)) {
    longer->pool_ = *pool;
  } else if (!detail::append(longer->chain_, next, operands)) {
    return {};
  }
  return {.module = std::move(longer)};
}

/// With the factors in the weights and in the bias; null if that cannot be.
std::shared_ptr<const Conv2d> Conv2d::scaled(const detail::PerChannel& factors) const {
  const std::size_t channels = std::max(factors.scale.size(), factors.shift.size());
  if (!chain_.empty() || channels != static_cast<std::size_t>(options_.out) || !weight().defined()) return nullptr;
  EightBitWeights eight = eight_;
  if (eight.defined() && !detail::scale_codes(eight, factors.scale)) return nullptr;
  if (options_.bias && !bias().defined()) return nullptr;
  const Tensor weight = factors.scale.empty() ? this->weight() : detail::scaled_rows(this->weight(), factors.scale);
  if (!weight.defined()) return nullptr;
  const bool biased = options_.bias || !factors.shift.empty();
  auto folded = with(options_, weight, biased ? detail::scaled_and_shifted(bias(), factors) : Tensor());
  folded->eight_ = std::move(eight);
  return folded;
}

/// The same but for the options, of which the bias says whether there is one, and the parameters; without codes.
std::shared_ptr<Conv2d> Conv2d::with(Conv2dOptions options, Tensor weight, Tensor bias) const {
  options.bias = bias.defined();
  auto result = std::make_shared<Conv2d>(options);
  result->more_ = more_, result->scaled_ = scaled_, result->chain_ = chain_, result->pool_ = pool_;
  result->set_weight(std::move(weight));
  if (bias.defined()) result->set_bias(std::move(bias));
  return result;
}

std::shared_ptr<const Conv2d> Conv2d::with_factors(Tensor weight, Tensor bias, bool scaled) const {
  auto result = with(options_, std::move(weight), std::move(bias));
  result->scaled_ = scaled;
  for (PointwiseStep& step : result->chain_) step.operand += scaled && step.operand > 0;
  return result;
}

std::shared_ptr<const Conv2d> Conv2d::with_padding(Size2d before, Size2d behind) const {
  if (eight_.defined()) return nullptr;
  Conv2dOptions options = options_;
  options.padding.height += before.height, options.padding.width += before.width;
  auto result = with(options, weight(), bias());
  result->more_.height += behind.height - before.height, result->more_.width += behind.width - before.width;
  return result;
}

std::shared_ptr<const Conv2d> Conv2d::with_filters(Tensor weight, Tensor bias) const {
  Conv2dOptions options = options_;
  options.out = static_cast<int>(weight.shape()[0]);
  if (options_.groups == options_.in && options_.in == options_.out) options.in = options.groups = options.out;
  return with(options, std::move(weight), std::move(bias));
}

std::shared_ptr<const Conv2d> Conv2d::without_last_function() const {
  auto result = with(options_, weight(), bias());
  result->chain_.pop_back();
  return result;
}

std::shared_ptr<const Conv2d> Conv2d::with_live_window(const Shape& input) const {
  const ConvGeometry whole = geometry(input);
  if (more_.height != 0 || more_.width != 0) return nullptr;  // which is made for the same padding on both sides
  const detail::LiveWindow window = detail::live_window(whole);
  const ConvGeometry& part = window.geometry;
  if (part == whole || eight_.defined() || !weight().defined() || (options_.bias && !bias().defined())) return nullptr;
  Conv2dOptions options = options_;
  options.kernel = {part.kernel_height, part.kernel_width};
  options.padding = {part.padding_height, part.padding_width};
  if (part.kernel_height == 1) options.dilation.height = 1;
  if (part.kernel_width == 1) options.dilation.width = 1;
  return with(options, detail::live_weights(window, weight()), bias());
}

bool Conv2d::pays(const Preparation& preparation) const {
  if (scaled_) {
    const Shape& image = preparation.input().shape;
    if (image.rank() != 4 || preparation.inputs[1].shape != Shape{image[0], image[1], 1, 1}) return false;
  }
  return detail::operands_fit(preparation, scaled_ ? 2 : 1) && Layer::pays(preparation);
}

int Conv2d::in_place(const Preparation& preparation) const {
  if (chain_.empty() || chain_[0].function != Pointwise::add || chain_[0].operand < 0) return -1;
  std::vector<Shape> inputs;
  for (const View& view : preparation.inputs) inputs.push_back(view.shape);
  const auto* const kernel = found_kernel(detail::turned(problem(inputs)), preparation);
  return kernel != nullptr && kernel->over_residual ? chain_[0].operand : -1;
}

std::vector<std::string_view> conv_algorithms(DeviceType device) {
  std::vector<std::string_view> names;
  for (const auto& kernel : kernels<ConvProblem>(device)) names.push_back(kernel.name);
  return names;
}

std::string_view conv_algorithm(DeviceType device, std::string_view name) {
  const std::vector<std::string_view> names = conv_algorithms(device);
  for (const std::string_view asked : {name, successor_of(name)}) {
    if (const auto found = std::ranges::find(names, asked); found != names.end()) return *found;
  }
  return {};
}

}  // namespace lamina
