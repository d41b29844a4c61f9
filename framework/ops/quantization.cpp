#include "lamina/ops/quantization.h"

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

/// The numbers of a whole type of up to 16 bits.
std::pair<double, double> range_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return {0, 255};
    case DType::i8: return {-128, 127};
    case DType::u16: return {0, 65535};
    case DType::i16: return {-32768, 32767};
    default: fail("quantize: expected a type of 8 or 16 bits, got ", dtype);
  }
}

PointwiseStep step_of(Pointwise function, int operand, int second, double a, double b) {
  return {.function = function, .operand = operand, .second = second, .a = a, .b = b};
}

PointwiseChain rounding(DType dtype, const std::optional<Quantization>& codes) {
  const auto [low, high] = range_of(dtype);
  const PointwiseStep round =
      codes ? step_of(Pointwise::quantize, -1, -1, static_cast<double>(codes->scale), codes->zero_point)
            : step_of(Pointwise::quantize, 1, 2, 0, 0);
  return {round, step_of(Pointwise::clip, -1, -1, low, high)};
}

PointwiseChain meaning(const std::optional<Quantization>& codes) {
  if (!codes) return {step_of(Pointwise::sub, 2, -1, 0, 0), step_of(Pointwise::mul, 1, -1, 0, 0)};
  return {step_of(Pointwise::sub, -1, -1, codes->zero_point, 0),
          step_of(Pointwise::mul, -1, -1, static_cast<double>(codes->scale), 0)};
}

}  // namespace

Elementwise quantizer(DType dtype, const std::optional<Quantization>& codes) {
  return Elementwise(rounding(dtype, codes), DType::f32, dtype);
}

Elementwise dequantizer(const std::optional<Quantization>& codes) { return Elementwise(meaning(codes)); }

std::optional<QuantizationStep> quantization_of(const Module& module) {
  const auto* functions = dynamic_cast<const Elementwise*>(&module);
  if (functions == nullptr || functions->compute() != DType::f32 || functions->chain().size() != 2) return std::nullopt;
  const PointwiseStep& first = functions->chain()[0];
  const bool to = functions->output() == DType::u8 || functions->output() == DType::i8;
  const PointwiseStep& scale = functions->chain()[to ? 0 : 1];
  QuantizationStep step = {
      .kind = to ? QuantizationKind::quantize : QuantizationKind::dequantize,
      .codes = {.scale = static_cast<float>(scale.a), .zero_point = static_cast<std::int32_t>(to ? first.b : first.a)},
      .dtype = functions->output()};
  if (!(step.codes.scale > 0)) return std::nullopt;
  const PointwiseChain expected = to ? rounding(step.dtype, step.codes) : meaning(step.codes);
  if ((!to && functions->output() != DType::f32) || functions->chain() != expected) return std::nullopt;
  return step;
}

}  // namespace lamina::detail
