#include "lamina/layers/concat.h"

#include "lamina/cpu/elementwise.h"
#include "lamina/cuda/elementwise.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {

using detail::fail;
using detail::floats;

Attributes Concat::attributes() const { return {{"dim", std::int64_t{dim_}}}; }

Shape Concat::output_shape(std::span<const Shape> inputs) const {
  if (inputs.empty()) fail("concat: expected 1 or more inputs");
  const int dim = detail::dimension_of(op(), dim_, inputs[0]);
  Shape joined = inputs[0];
  for (const Shape& input : inputs.subspan(1)) {
    Shape same = input;
    if (input.rank() == joined.rank()) same.set(dim, inputs[0][dim]);
    if (same != inputs[0]) {
      fail("concat: expected inputs that differ in dimension ", dim, " only, got ", inputs[0], " and ", input);
    }
    if (input[dim] == batch || joined[dim] == batch) fail("concat: cannot join along the batch N before it is known");
    joined.set(dim, joined[dim] + input[dim]);
  }
  return joined;
}

bool Concat::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> Concat::prepare(const Preparation& preparation) const {
  const Layout layout = preparation.input.layout;
  const int logical = detail::dimension_of(op(), dim_, preparation.inputs[0]);
  const auto [first, dim] = detail::stored(preparation.inputs[0], layout, logical);
  const std::int64_t rows = detail::extent_product(first, 0, dim);
  std::vector<std::int64_t> widths;
  std::int64_t pitch = 0;
  for (const Shape& input : preparation.inputs) {
    widths.push_back(
        detail::extent_product(detail::stored(input, layout, logical).shape, dim, static_cast<int>(input.rank())));
    pitch += widths.back();
  }
  if (preparation.device.is_cpu()) {
    return detail::make_operator("copies",
                                 [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                                   float* out = floats(output);
                                   for (std::size_t i = 0; i < inputs.size(); out += widths[i++]) {
                                     cpu::copy_rows(floats(inputs[i]), out, rows, widths[i], pitch, *execution.pool);
                                   }
                                 });
  }
  const auto size = static_cast<std::int64_t>(size_of(preparation.input.dtype));
  return detail::make_operator(
      "copies", [=, device = preparation.device.index](std::span<const Tensor> inputs, Tensor& output,
                                                       const Execution& execution) {
        auto* out = static_cast<std::byte*>(output.raw());
        for (std::size_t i = 0; i < inputs.size(); out += size * widths[i++]) {
          cuda::copy_rows(device, inputs[i].raw(), out, rows, size * widths[i], size * pitch, execution.stream);
        }
      });
}

}  // namespace lamina
