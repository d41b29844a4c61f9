#include "lamina/cpu/conv2d/bf16/kernels.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu::bf16 {
namespace {

bool is_narrow(const View& view) { return view.format.dtype == DType::bf16 || view.format.dtype == DType::f32; }

std::string description(const Layer& layer) {
  const Engine& engine = *layer.engine;
  return detail::concat("bf16: ", engine.what, ", ", engine.positions, " pixels x ", engine.filters, " filters",
                        layer.direct   ? ", input where it lies"
                        : layer.scaled ? ", input scaled on the way"
                        : layer.folded ? ", rows of taps as channels"
                                       : "",
                        ", ", name(engine.set));
}

}  // namespace

template <Unit unit>
bool takes(const ConvProblem& problem, const Preparation& p) {
  if (!has_unit(p.device, unit)) return false;
  if (p.precision != Precision::bf16 || !problem.epilogue.is_residual(problem.scaled ? 2 : 1)) return false;
  if (!std::ranges::all_of(p.inputs, is_narrow) || !is_narrow(p.output())) return false;
  if (p.output().format.layout != Layout::nhwc) return false;
  // Pairs of channels are read at once.
  const View& input = p.input();
  if (input.is_slice() && (input.format != Format{DType::bf16, Layout::nhwc} || input.alignment % 4 != 0)) return false;
  const auto whole = [](const View& view) {
    return view.format == Format{DType::bf16, Layout::nhwc} && !view.is_slice();
  };
  if (problem.scaled && !(pixelwise(problem.geometry) && whole(input) && whole(p.inputs[1]))) return false;
  const auto like_output = [&](const View& view) {
    return view.format == p.output().format && view.channels == p.output().channels;
  };
  return !problem.epilogue.reads_operands() || (p.inputs.size() > 1 && like_output(p.inputs.back()));
}

std::unique_ptr<Operator> prepare_convolution(const ConvProblem& problem, Format input, DType output,
                                              const Engine& engine, const Preparation& p) {
  const Layer layer(problem.geometry, engine, input, p.threads, problem.scaled);
  Tensor weight(Shape{layer.packed_size()}, DType::bf16), bias(Shape{layer.bias_size()});
  pack_weights(layer, detail::floats(problem.weight), static_cast<std::uint16_t*>(weight.raw()));
  pack_bias(layer, problem.bias.defined() ? detail::floats(problem.bias) : nullptr, detail::floats(bias));
  return detail::make_operator(
      description(layer), {.workspace = layer.workspace(p.threads), .parameters = weight.bytes() + bias.bytes()},
      [layer, weight, bias, output, epilogue = row_epilogue(problem.epilogue, p.device),
       adds = problem.epilogue.reads_operands(), from = p.input().channels, to = p.output().channels](
          std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        convolve(layer,
                 {.input = inputs[0].raw(),
                  .weight = static_cast<const std::uint16_t*>(weight.raw()),
                  .bias = detail::floats(bias),
                  .residual = adds ? inputs.back().raw() : nullptr,
                  .scale = layer.scaled ? static_cast<const bfloat16*>(inputs[1].raw()) : nullptr,
                  .output = outputs[0].raw(),
                  .output_type = output,
                  .input_pitch = from,
                  .output_pitch = to},
                 epilogue, *execution.pool, static_cast<std::byte*>(execution.workspace));
      });
}

template <Unit unit>
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  return prepare_convolution(problem, p.input().format, p.output().format.dtype, engine_of(unit, p.device), p);
}

#define LAMINA_BF16_UNIT(unit)                                       \
  template bool takes<unit>(const ConvProblem&, const Preparation&); \
  template std::unique_ptr<Operator> prepare<unit>(const ConvProblem&, const Preparation&)
LAMINA_BF16_UNIT(Unit::amx);
LAMINA_BF16_UNIT(Unit::dot);
LAMINA_BF16_UNIT(Unit::multiply_add);
#undef LAMINA_BF16_UNIT

}  // namespace lamina::cpu::bf16
