#include "lamina/layers/elementwise.h"

#include "lamina/cpu/elementwise.h"
#include "lamina/cuda/elementwise.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {

using detail::floats;

Shape Add::output_shape(std::span<const Shape> inputs) const {
  if (inputs.size() != 2) detail::fail("add: expected 2 inputs, got ", inputs.size());
  if (inputs[0] != inputs[1]) detail::fail("add: expected inputs of one shape, got ", inputs[0], " and ", inputs[1]);
  return inputs[0];
}

bool Add::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> Add::prepare(const Preparation& preparation) const {
  const bool relu = preparation.relu;
  switch (preparation.device.type) {
    case DeviceType::cpu:
      return detail::make_operator(
          "elementwise", [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            cpu::add(floats(inputs[0]), floats(inputs[1]), floats(output), output.numel(), relu, *execution.pool);
          });
    case DeviceType::cuda:
      return detail::make_operator("elementwise",
                                   [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                                     cuda::add(output.device().index, output.dtype(), inputs[0].raw(), inputs[1].raw(),
                                               output.raw(), output.numel(), relu, execution.stream);
                                   });
  }
  detail::fail("add: unknown device");
}

Shape Sigmoid::output_shape(std::span<const Shape> inputs) const { return detail::lone_input(op(), inputs); }

bool Sigmoid::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> Sigmoid::prepare(const Preparation& preparation) const {
  switch (preparation.device.type) {
    case DeviceType::cpu:
      return detail::make_operator("elementwise",
                                   [](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                                     cpu::sigmoid(floats(inputs[0]), floats(output), output.numel(), *execution.pool);
                                   });
    case DeviceType::cuda:
      return detail::make_operator("elementwise",
                                   [](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                                     cuda::sigmoid(output.device().index, output.dtype(), inputs[0].raw(), output.raw(),
                                                   output.numel(), execution.stream);
                                   });
  }
  detail::fail("sigmoid: unknown device");
}

}  // namespace lamina
