#include "lamina/ops/element_type.h"

#include <algorithm>
#include <array>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

// Fields of TensorProto: float_data 4, int32_data 5, string_data 6, int64_data 7, double_data 10, uint64_data 11.
constexpr std::array<ElementType, 27> table = {{
    {"UNDEFINED", {}, 0},
    {"FLOAT", DType::f32, 4},
    {"UINT8", DType::u8, 5},
    {"INT8", DType::i8, 5},
    {"UINT16", DType::u16, 5},
    {"INT16", DType::i16, 5},
    {"INT32", DType::i32, 5},
    {"INT64", DType::i64, 7},
    {"STRING", {}, 6},
    {"BOOL", DType::boolean, 5},
    {"FLOAT16", DType::f16, 5},
    {"DOUBLE", DType::f64, 10},
    {"UINT32", DType::u32, 11},
    {"UINT64", DType::u64, 11},
    {"COMPLEX64", {}, 4},
    {"COMPLEX128", {}, 10},
    {"BFLOAT16", DType::bf16, 5},
    {"FLOAT8E4M3FN", {}, 5},
    {"FLOAT8E4M3FNUZ", {}, 5},
    {"FLOAT8E5M2", {}, 5},
    {"FLOAT8E5M2FNUZ", {}, 5},
    {"UINT4", {}, 5},
    {"INT4", {}, 5},
    {"FLOAT4E2M1", {}, 5},
    {"FLOAT8E8M0", {}, 5},
    {"UINT2", {}, 5},
    {"INT2", {}, 5},
}};

}  // namespace

const ElementType* find_element_type(std::int32_t data_type) {
  if (data_type < 0 || static_cast<std::size_t>(data_type) >= table.size()) return nullptr;
  return &table[static_cast<std::size_t>(data_type)];
}

std::string element_type_name(std::int32_t data_type) {
  const ElementType* type = find_element_type(data_type);
  return type == nullptr ? concat("data_type ", data_type) : std::string(type->name);
}

std::int32_t data_type_of(DType dtype) {
  const auto* row = std::ranges::find(table, dtype, &ElementType::dtype);
  if (row == table.end()) fail("ONNX has no element type ", dtype);
  return static_cast<std::int32_t>(row - table.begin());
}

}  // namespace lamina::detail
