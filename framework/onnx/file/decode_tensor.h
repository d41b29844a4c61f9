#pragma once

#include <cstddef>
#include <span>

#include "lamina/onnx/file/proto.h"

namespace lamina::detail::onnx {

struct Place;

/// Decodes a TensorProto but for its elements. What DType has is checked: extents, overflow, and that there are as many
/// elements as the shape says.
TensorProto decode_tensor(std::span<std::byte> bytes, const Place& place);

/// Decodes the elements of a typed field (float_data, int32_data, ...), which `decode_tensor` has counted, to `out`.
/// Throws Error, naming the tensor, for a value that its type does not hold.
void decode_elements(const TensorProto& tensor, std::span<std::byte> out, const std::string& path);

}  // namespace lamina::detail::onnx
