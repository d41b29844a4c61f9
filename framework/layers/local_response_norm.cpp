#include "lamina/layers/local_response_norm.h"

#include "lamina/cpu/local_response_norm.h"
#include "lamina/cuda/local_response_norm.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {

using detail::floats;

LocalResponseNorm::LocalResponseNorm(const LocalResponseNormOptions& options) : options_(options) {
  if (options_.size < 1) detail::fail("local_response_norm: expected a size of 1 or more, got ", options_.size);
}

Attributes LocalResponseNorm::attributes() const {
  return {{"size", std::int64_t{options_.size}}, {"alpha", options_.alpha}, {"beta", options_.beta}, {"k", options_.k}};
}

Shape LocalResponseNorm::output_shape(std::span<const Shape> inputs) const { return detail::lone_image(op(), inputs); }

bool LocalResponseNorm::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> LocalResponseNorm::prepare(const Preparation& preparation) const {
  const Shape& input = preparation.inputs[0];
  const LocalResponse settings = {.images = input[0],
                                  .channels = static_cast<int>(input[1]),
                                  .pixels = input[2] * input[3],
                                  .size = options_.size,
                                  .alpha = static_cast<float>(options_.alpha),
                                  .beta = static_cast<float>(options_.beta),
                                  .k = static_cast<float>(options_.k)};
  switch (preparation.device.type) {
    case DeviceType::cpu:
      return detail::make_operator(
          "strips of pixels", [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cpu::local_response_norm(settings, floats(inputs[0]), floats(output), *execution.pool);
          });
    case DeviceType::cuda:
      return detail::make_operator(
          "one thread per output", [=, device = preparation.device.index, format = preparation.input](
                                       std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cuda::local_response_norm(device, settings, format, inputs[0].raw(), output.raw(), execution.stream);
          });
  }
  detail::fail("local_response_norm: unknown device");
}

}  // namespace lamina
