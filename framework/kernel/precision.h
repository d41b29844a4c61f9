#pragma once

#include <string_view>

#include "lamina/base/export.h"
#include "lamina/tensor/dtype.h"

namespace lamina {

/// Arithmetic of a plan; docs/inside/precision.md states the error bound that each one promises.
enum class Precision { fp32, tf32, fp16, bf16 };

LAMINA_API std::string_view name(Precision precision);
/// Throws Error naming the choices.
LAMINA_API Precision parse_precision(std::string_view text);
/// What a GPU stores activations and weights in: f16, bf16, or f32 for the others.
LAMINA_API DType storage_type(Precision precision);

}  // namespace lamina
