#pragma once

#include <lamina/lamina.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lamina::app {

/// A tensor of the numbers in `data`, lists in lists or one list, in row-major order. Throws Refusal (400), naming the
/// tensor, if they are not as many, no numbers, or out of the type's range.
Tensor tensor_of(const std::string& name, const nlohmann::ordered_json& data, const Shape& shape, DType dtype);

/// Appends the values as one list. Floats are the shortest texts that read back as the same bits; NaN and infinities,
/// which JSON has not, are null.
void append_values(std::string& out, const Tensor& tensor);

}  // namespace lamina::app
