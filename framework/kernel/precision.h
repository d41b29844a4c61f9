#pragma once

#include <string_view>

#include "lamina/base/export.h"
#include "lamina/tensor/dtype.h"

namespace lamina {

/// Arithmetic of a plan; docs/inside/precision.md states the error bound that each one promises.
enum class Precision { fp32, tf32, fp16, bf16 };

/// What a precision is: a row. A new one is a row, and the kernels that compute in it.
struct PrecisionRow {
  std::string_view name;
  DType storage;   ///< of activations and weights on a GPU
  int parts;       ///< that tensor cores take an operand in, so that its products keep the storage's bits
  double epsilon;  ///< of the error bound
  bool on_cpu;     ///< a CPU computes in it too
};

/// In the order of Precision.
inline constexpr PrecisionRow precisions[] = {{"fp32", DType::f32, 2, 3e-6, true},
                                              {"tf32", DType::f32, 1, 1e-3, false},
                                              {"fp16", DType::f16, 1, 2e-3, false},
                                              {"bf16", DType::bf16, 1, 1e-2, true}};

constexpr const PrecisionRow& row_of(Precision precision) { return precisions[static_cast<std::size_t>(precision)]; }
constexpr std::string_view name(Precision precision) { return row_of(precision).name; }
constexpr DType storage_type(Precision precision) { return row_of(precision).storage; }
/// Throws Error naming the choices.
LAMINA_API Precision parse_precision(std::string_view text);

}  // namespace lamina
