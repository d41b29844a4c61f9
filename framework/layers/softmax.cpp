#include "lamina/layers/softmax.h"

#include "lamina/cpu/softmax.h"
#include "lamina/cuda/softmax.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {

using detail::floats;

Attributes Softmax::attributes() const { return {{"dim", std::int64_t{dim_}}}; }

Shape Softmax::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_input(op(), inputs);
  (void)detail::dimension_of(op(), dim_, input);
  return input;
}

bool Softmax::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> Softmax::prepare(const Preparation& preparation) const {
  const Shape& logical = preparation.inputs[0];
  const auto [input, dim] =
      detail::stored(logical, preparation.input.layout, detail::dimension_of(op(), dim_, logical));
  const std::int64_t outer = detail::extent_product(input, 0, dim);
  const std::int64_t extent = input[dim];
  const std::int64_t inner = detail::extent_product(input, dim + 1, static_cast<int>(input.rank()));
  switch (preparation.device.type) {
    case DeviceType::cpu:
      return detail::make_operator(
          "three passes", [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cpu::softmax(floats(inputs[0]), floats(output), outer, extent, inner, *execution.pool);
          });
    case DeviceType::cuda:
      return detail::make_operator("three passes", [=, device = preparation.device.index](
                                                       std::span<const Tensor> inputs, Tensor& output,
                                                       const Execution& execution) {
        cuda::softmax(device, output.dtype(), inputs[0].raw(), output.raw(), outer, extent, inner, execution.stream);
      });
  }
  detail::fail("softmax: unknown device");
}

}  // namespace lamina
