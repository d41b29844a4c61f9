#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lamina/base/export.h"

namespace lamina::detail {

/// What a file is that was expected to be another.
struct Content {
  std::string_view name;    // "an HTML page"; empty where it cannot be told
  std::string_view advice;  // what to do with it, "; " in front; may be empty
};

/// Whether a file begins as an ONNX model does. Protocol Buffers have no magic number, so this is no more than likely.
LAMINA_API bool looks_like_onnx(std::span<const std::byte> bytes);

/// Judges by the first bytes of a file, or by all of them. Common kinds only; Lamina's own formats among them.
LAMINA_API Content content_of(std::span<const std::byte> bytes);

/// What was found, for a message that says what was expected: ": this is an HTML page; a download may have gone wrong",
/// or, of what it cannot tell, "; the file starts with \"\x13ab\"".
LAMINA_API std::string found_content(std::span<const std::byte> bytes);

/// Throws Error of a named pipe, which waits for whoever writes to it, and of a device, which may have no end. What
/// this process was given as /dev/stdin or /dev/fd/63, as a shell writes `<(command)`, is a pipe that ends.
LAMINA_API void require_end(const std::string& path);

}  // namespace lamina::detail
