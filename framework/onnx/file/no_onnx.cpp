// Stands for the decoder in a build without it (LAMINA_ONNX=OFF).

#include "lamina/base/error.h"
#include "lamina/onnx/file/decode_tensor.h"
#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/onnx.h"

namespace lamina::detail::onnx {

ModelProto decode(std::shared_ptr<const MappedFile> file) {
  fail(ErrorKind::unsupported, file->path(), ": this Lamina was built without ONNX (LAMINA_ONNX=OFF)");
}

void decode_elements(const TensorProto&, std::span<std::byte>, const std::string&) {
  fail(ErrorKind::unsupported, "this Lamina was built without ONNX (LAMINA_ONNX=OFF)");
}

}  // namespace lamina::detail::onnx

void lamina::save_onnx(const std::filesystem::path&, const Graph& network) { detail::require_onnx(network); }

void lamina::detail::require_onnx(const Graph&) {
  fail(ErrorKind::unsupported, "this Lamina was built without ONNX (LAMINA_ONNX=OFF)");
}
