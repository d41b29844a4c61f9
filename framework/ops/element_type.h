#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lamina/tensor/dtype.h"

namespace lamina::detail {

/// A row of TensorProto.DataType.
struct ElementType {
  std::string_view name;       // as onnx.proto writes it
  std::optional<DType> dtype;  // none: Lamina has none
  int field = 0;               // of TensorProto, that holds the elements where raw_data does not
};

/// Null where ONNX has no such number.
const ElementType* find_element_type(std::int32_t data_type);

/// "FLOAT8E4M3FN", or "data_type 99".
std::string element_type_name(std::int32_t data_type);

/// ONNX's number of a type. Throws Error if it has none.
std::int32_t data_type_of(DType dtype);

}  // namespace lamina::detail
