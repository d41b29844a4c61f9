#pragma once

#include <optional>

#include "lamina/kernel/preparation.h"
#include "lamina/layers/elementwise.h"

/// Numbers of whole types that stand for others, as ONNX's QuantizeLinear and DequantizeLinear have them.
namespace lamina::detail {

/// q = clamp(round(x / scale) + zero_point), halves to even, to a whole type; NaN gives the lowest. A scale that is
/// not a number alone is input 1, a zero point input 2.
Elementwise quantizer(DType dtype, const std::optional<Quantization>& codes);
/// scale * (q - zero_point), in f32. Else inputs 1 and 2 as above.
Elementwise dequantizer(const std::optional<Quantization>& codes);

enum class QuantizationKind { quantize, dequantize };

struct QuantizationStep {
  QuantizationKind kind;
  Quantization codes;
  DType dtype = DType::u8;  ///< of `quantize`
};

/// What a module of the two above does with one scale for all, to u8 or i8; nothing of another.
std::optional<QuantizationStep> quantization_of(const Module& module);

}  // namespace lamina::detail
