#include "lamina/compile/conversion.h"

#include "lamina/base/error.h"
#include "lamina/cuda/convert.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/activation.h"

namespace lamina::detail {

std::unique_ptr<Operator> prepare_conversion(const Preparation& preparation) {
  const Activation a = activation_of(preparation.inputs[0]);
  const Format from = preparation.input, to = preparation.output;
  const std::string description = concat("conversion from ", from, " to ", to);
  if (preparation.device.is_cpu()) fail(description, ": the CPU stores activations as ", Format{}, " only");
  return make_operator(description, [=, device = preparation.device.index](std::span<const Tensor> inputs,
                                                                           Tensor& output, const Execution& execution) {
    cuda::convert(device, a, from, inputs[0].raw(), to, output.raw(), execution.stream);
  });
}

}  // namespace lamina::detail
