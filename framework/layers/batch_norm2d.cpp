#include "lamina/layers/batch_norm2d.h"

#include <cmath>

#include "lamina/cpu/elementwise.h"
#include "lamina/cuda/elementwise.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {

using detail::floats;

BatchNorm2d::BatchNorm2d(const BatchNorm2dOptions& options) : options_(options) {
  if (options_.channels < 1) detail::fail("batch_norm2d: expected 1 or more channels, got ", options_.channels);
  if (!(options_.eps >= 0)) detail::fail("batch_norm2d: expected an eps of 0 or more, got ", options_.eps);
}

BatchNorm2d::Coefficients BatchNorm2d::coefficients() const {
  detail::require_loaded(op(), running_mean_, "running_mean");
  detail::require_loaded(op(), running_var_, "running_var");
  if (options_.affine) {
    detail::require_loaded(op(), weight_, "weight");
    detail::require_loaded(op(), bias_, "bias");
  }
  const Shape shape = {options_.channels};
  Coefficients result = {Tensor(shape), Tensor(shape)};
  for (std::size_t c = 0; c < static_cast<std::size_t>(options_.channels); ++c) {
    const double weight = options_.affine ? static_cast<double>(weight_.values<float>()[c]) : 1.0;
    const double bias = options_.affine ? static_cast<double>(bias_.values<float>()[c]) : 0.0;
    const double scale = weight / std::sqrt(static_cast<double>(running_var_.values<float>()[c]) + options_.eps);
    result.scale.values<float>()[c] = static_cast<float>(scale);
    result.shift.values<float>()[c] =
        static_cast<float>(bias - static_cast<double>(running_mean_.values<float>()[c]) * scale);
  }
  return result;
}

Attributes BatchNorm2d::attributes() const { return {{"eps", options_.eps}}; }

std::vector<Module::Parameter> BatchNorm2d::parameters() {
  const Shape shape = {options_.channels};
  std::vector<Parameter> result;
  if (options_.affine) result = {{"weight", shape, &weight_}, {"bias", shape, &bias_}};
  result.push_back({"running_mean", shape, &running_mean_});
  result.push_back({"running_var", shape, &running_var_});
  return result;
}

Shape BatchNorm2d::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_image(op(), inputs);
  if (input[1] != options_.channels) {
    detail::fail("batch_norm2d: expected ", options_.channels, " input channels, got ", input[1], " (input ", input,
                 ')');
  }
  return input;
}

bool BatchNorm2d::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> BatchNorm2d::prepare(const Preparation& preparation) const {
  const Shape& input = preparation.inputs[0];
  const std::int64_t images = input[0], channels = input[1], pixels = input[2] * input[3];
  const bool relu = preparation.relu;
  const Device device = preparation.device;
  const Format format = preparation.input;
  const Coefficients host = coefficients();
  const Tensor scale = host.scale.to(device), shift = host.shift.to(device);
  const detail::OperatorMemory memory = {.workspace = 0, .parameters = scale.bytes() + shift.bytes()};
  switch (device.type) {
    case DeviceType::cpu:
      return detail::make_operator(
          "scale and shift", memory, [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cpu::scale_and_shift(floats(inputs[0]), floats(scale), floats(shift), floats(output), images, channels,
                                 pixels, relu, *execution.pool);
          });
    case DeviceType::cuda:
      return detail::make_operator(
          "scale and shift", memory, [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cuda::scale_and_shift(device.index, format, {images, channels, pixels}, inputs[0].raw(), floats(scale),
                                  floats(shift), output.raw(), relu, execution.stream);
          });
  }
  detail::fail("batch_norm2d: unknown device");
}

}  // namespace lamina
