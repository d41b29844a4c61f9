#include "lamina/layers/conv2d.h"

#include <array>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d_operators.h"

namespace lamina {
namespace {

void require_at_least(int least, Size2d size, std::string_view what) {
  if (size.height < least || size.width < least) {
    detail::fail("conv2d: expected a ", what, " of ", least, " or more, got ", to_string(size));
  }
}

/// Kernels compute positions in the padded input, and a little beyond it, as int.
constexpr std::int64_t largest_extent = std::numeric_limits<int>::max() / 4;

/// Length of one side of the output, or a message about why there is none.
int output_extent(std::string_view side, const Shape& input, std::int64_t extent, int kernel, int stride, int padding,
                  int dilation) {
  const std::int64_t window = std::int64_t{dilation} * (kernel - 1) + 1;
  const std::int64_t padded = extent + 2 * std::int64_t{padding};
  if (window > padded) {
    detail::fail("conv2d: kernel of ", side, ' ', window, " (dilation included) is larger than the padded input of ",
                 side, ' ', padded, " (input ", input, ')');
  }
  if (padded > largest_extent) detail::fail("conv2d: a padded input of ", side, ' ', padded, " is too large");
  const std::int64_t result = (padded - window) / stride + 1;
  return static_cast<int>(result);
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  const auto& [in, out, kernel, stride, padding, dilation, groups, bias] = options_;
  if (in < 1 || out < 1) detail::fail("conv2d: expected 1 or more channels, got ", in, " in and ", out, " out");
  require_at_least(1, kernel, "kernel");
  require_at_least(1, stride, "stride");
  require_at_least(0, padding, "padding");
  require_at_least(1, dilation, "dilation");
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    detail::fail("conv2d: expected groups that divide ", in, " input and ", out, " output channels, got ", groups);
  }
}

Shape Conv2d::weight_shape() const {
  return {options_.out, options_.in / options_.groups, options_.kernel.height, options_.kernel.width};
}

void Conv2d::set_weight(Tensor weight) {
  detail::require_parameter(op(), weight, weight_shape(), "weight");
  weight_ = std::move(weight);
}

void Conv2d::set_bias(Tensor bias) {
  if (!options_.bias) detail::fail("conv2d: this convolution has no bias");
  detail::require_parameter(op(), bias, {options_.out}, "bias");
  bias_ = std::move(bias);
}

Attributes Conv2d::attributes() const {
  const auto pair = [](Size2d size) { return std::vector<std::int64_t>{size.height, size.width}; };
  return {{"stride", pair(options_.stride)},
          {"padding", pair(options_.padding)},
          {"dilation", pair(options_.dilation)},
          {"groups", std::int64_t{options_.groups}}};
}

std::vector<Module::Parameter> Conv2d::parameters() {
  std::vector<Parameter> result = {{"weight", weight_shape(), &weight_}};
  if (options_.bias) result.push_back({"bias", {options_.out}, &bias_});
  return result;
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
  g.out_height =
      output_extent("height", input, input[2], o.kernel.height, o.stride.height, o.padding.height, o.dilation.height);
  g.out_width =
      output_extent("width", input, input[3], o.kernel.width, o.stride.width, o.padding.width, o.dilation.width);
  g.kernel_height = o.kernel.height;
  g.kernel_width = o.kernel.width;
  g.stride_height = o.stride.height;
  g.stride_width = o.stride.width;
  g.padding_height = o.padding.height;
  g.padding_width = o.padding.width;
  g.dilation_height = o.dilation.height;
  g.dilation_width = o.dilation.width;
  g.groups = o.groups;
  return g;
}

Shape Conv2d::output_shape(std::span<const Shape> inputs) const {
  if (inputs.size() != 1) detail::fail("conv2d: expected 1 input, got ", inputs.size());
  const ConvGeometry g = geometry(inputs[0]);
  return {inputs[0][0], g.out_channels, g.out_height, g.out_width};
}

double Conv2d::flops(std::span<const Shape> inputs) const { return geometry(inputs[0]).flops(); }

std::shared_ptr<Module> Conv2d::followed_by(const Module& next) const {
  const auto* norm = dynamic_cast<const BatchNorm2d*>(&next);
  if (norm == nullptr || norm->options().channels != options_.out || !weight_.defined()) return nullptr;
  if (options_.bias && !bias_.defined()) return nullptr;
  const auto [scale, shift] = norm->coefficients();
  Tensor weight = weight_.clone();
  Tensor bias = shift.clone();
  const std::span<float> weights = weight.values<float>();
  const std::size_t filter = weights.size() / static_cast<std::size_t>(options_.out);
  for (std::size_t c = 0; c < static_cast<std::size_t>(options_.out); ++c) {
    const float factor = scale.values<float>()[c];
    for (float& w : weights.subspan(c * filter, filter)) w *= factor;
    if (options_.bias) bias.values<float>()[c] += bias_.values<float>()[c] * factor;
  }
  Conv2dOptions options = options_;
  options.bias = true;
  auto folded = std::make_shared<Conv2d>(options);
  folded->set_weight(std::move(weight));
  folded->set_bias(std::move(bias));
  return folded;
}

bool Conv2d::takes(const Preparation& preparation) const {
  const ConvGeometry g = geometry(preparation.inputs[0]);
  return preparation.device.is_cpu() ? detail::conv2d_cpu_takes(g, preparation)
                                     : detail::conv2d_cuda_takes(g, preparation);
}

std::unique_ptr<Operator> Conv2d::prepare(const Preparation& preparation) const {
  if (!weight_.defined()) detail::fail("conv2d: the weight was never set; load weights first");
  if (options_.bias && !bias_.defined()) detail::fail("conv2d: the bias was never set; load weights first");
  const ConvGeometry g = geometry(preparation.inputs[0]);
  switch (preparation.device.type) {
    case DeviceType::cpu: return detail::prepare_conv2d_cpu(g, preparation, weight_, bias_);
    case DeviceType::cuda: return detail::prepare_conv2d_cuda(g, preparation, weight_, bias_);
  }
  detail::fail("conv2d: unknown device");
}

std::span<const ConvAlgorithm> conv_algorithms(DeviceType device) {
  static constexpr std::array cpu = {ConvAlgorithm::direct, ConvAlgorithm::im2col, ConvAlgorithm::eigen,
                                     ConvAlgorithm::blocked};
  static constexpr std::array cuda = {ConvAlgorithm::direct, ConvAlgorithm::direct_fixed, ConvAlgorithm::direct_padded,
                                      ConvAlgorithm::tiled,  ConvAlgorithm::im2col,       ConvAlgorithm::implicit_gemm};
  return device == DeviceType::cpu ? std::span<const ConvAlgorithm>(cpu) : std::span<const ConvAlgorithm>(cuda);
}

}  // namespace lamina
