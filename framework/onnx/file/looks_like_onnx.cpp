#include <algorithm>

#include "lamina/onnx/file/proto.h"

namespace lamina::detail::onnx {

bool looks_like_onnx(std::span<const std::byte> bytes) {
  // ir_version comes first: field 1, a varint of one byte. Then a field of ModelProto, of its wire type: 2, 3, 4, 6 are
  // texts, 7 the graph, 8 the opsets, 14 metadata; 5 is a number.
  if (bytes.size() < 3 || bytes[0] != std::byte{0x08} || bytes[1] == std::byte{0} || bytes[1] >= std::byte{0x80}) {
    return false;
  }
  constexpr unsigned char second[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
  return std::ranges::find(second, static_cast<unsigned char>(bytes[2])) != std::end(second);
}

}  // namespace lamina::detail::onnx
