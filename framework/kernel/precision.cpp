#include "lamina/kernel/precision.h"

#include <string>

#include "lamina/base/error.h"

namespace lamina {
namespace {

// A new precision adds its line here.
constexpr struct {
  Precision precision;
  std::string_view name;
  DType storage;
} table[] = {{Precision::fp32, "fp32", DType::f32},
             {Precision::tf32, "tf32", DType::f32},
             {Precision::fp16, "fp16", DType::f16},
             {Precision::bf16, "bf16", DType::bf16}};

}  // namespace

std::string_view name(Precision precision) { return table[static_cast<std::size_t>(precision)].name; }

Precision parse_precision(std::string_view text) {
  std::string choices;
  for (const auto& row : table) {
    if (row.name == text) return row.precision;
    choices += (choices.empty() ? "" : ", ") + std::string(row.name);
  }
  detail::fail("precision: expected one of ", choices, "; got \"", text, '"');
}

DType storage_type(Precision precision) { return table[static_cast<std::size_t>(precision)].storage; }

}  // namespace lamina
