#include "lamina/layers/views.h"

#include "lamina/base/error.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/linear.h"
#include "lamina/module/checks.h"

namespace lamina {

std::unique_ptr<Operator> ViewOfInput::prepare(const Preparation&) const {
  detail::fail(op(), ": a view has no operator");
}

Shape Reshape::output_shape(std::span<const Shape> inputs) const {
  if (detail::lone_input(op(), inputs).numel() != shape_.numel())
    detail::fail("reshape: cannot read ", inputs[0], " as ", shape_);
  return shape_;
}

bool Reshape::takes(const Preparation& p) const {
  const View &input = p.input(), &output = p.output();
  return input.format.dtype == output.format.dtype && input.quantization == output.quantization &&
         detail::same_order(input.shape, input.format.layout, Layout::nchw) &&
         detail::same_order(output.shape, output.format.layout, Layout::nchw);
}

Module::Absorbed Reshape::absorb(const Module& next, std::span<const Operand>) const {
  if (const auto* later = dynamic_cast<const Reshape*>(&next)) return {.module = std::make_shared<Reshape>(*later)};
  if (const auto* move = dynamic_cast<const detail::Fixed<MoveProblem>*>(&next))
    return {.module = std::make_shared<detail::Fixed<MoveProblem>>(*move)};
  // Rows are rows under any shape; those of an image of one pixel are read as the image is stored.
  if (const auto* norm = dynamic_cast<const detail::Fixed<NormProblem>*>(&next); norm != nullptr && shape_.rank() != 4)
    return {.module = std::make_shared<detail::Fixed<NormProblem>>(*norm)};
  return {};
}

Shape Flatten::output_shape(std::span<const Shape> inputs) const {
  if (inputs.size() != 1 || inputs[0].rank() < 1) detail::fail("flatten: expected 1 input of rank 1 or more");
  return {inputs[0][0], Shape(inputs[0].extents().subspan(1)).numel()};
}

Module::Absorbed Flatten::absorb(const Module& next, std::span<const Operand>) const {
  if (dynamic_cast<const Dropout*>(&next) != nullptr) return {.module = std::make_shared<Flatten>()};
  if (const auto* linear = dynamic_cast<const Linear*>(&next)) return {.module = linear->after_flatten()};
  return {};
}

/// The elements of an image in another order than nchw would be joined in that order.
bool Flatten::takes(const Preparation& p) const {
  const Format input = p.input().format, output = p.output().format;
  return input.dtype == output.dtype && p.input().quantization == p.output().quantization &&
         output.layout == Layout::nchw && detail::same_order(p.input().shape, input.layout, Layout::nchw);
}

Shape Dropout::output_shape(std::span<const Shape> inputs) const { return detail::lone_input(op(), inputs); }

bool Dropout::takes(const Preparation& p) const { return p.keeps_format(); }

}  // namespace lamina
