#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"

namespace lamina {

/// An 8-bit RGB picture.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]

  friend bool operator==(const Image&, const Image&) = default;
};

/// Larger pictures are refused before anything is allocated for their pixels: 300 MB as RGB.
inline constexpr std::int64_t max_image_pixels = 100'000'000;

/// Larger files are refused.
inline constexpr std::size_t max_image_file_bytes = std::size_t{1} << 30;

/// Whether these bytes, the start of a file or all of it, are a picture `decode_image` may be able to read. Looks at
/// the content only. TGA has no signature, so a header that makes sense as TGA counts as one.
LAMINA_API bool is_image(std::span<const std::byte> bytes);

/// Decodes PNG, JPEG, BMP, TGA, binary PGM or PPM, whichever the content says it is. `name` goes into errors.
///
/// The pixels are those of Pillow's `Image.open(...).convert("RGB")`: alpha is dropped, grey replicated, palettes
/// looked up; EXIF orientation, gamma and colour profiles are ignored. Two exceptions: JPEG differs by a few levels
/// where `jpeg_decoder()` is stb_image, and 16-bit grey samples keep their high byte, where Pillow would turn
/// everything from 255 up to white.
///
/// Throws Error if the bytes are no picture, a kind that is not read (the message says which), damaged or truncated,
/// or have more than `max_image_pixels`. Bytes after the picture are ignored.
LAMINA_API Image decode_image(std::span<const std::byte> bytes, std::string_view name);

/// What decodes JPEG in this build: "libjpeg-turbo 2.1.5", whose pixels are Pillow's and torchvision's to the bit, or
/// "stb_image".
LAMINA_API std::string_view jpeg_decoder();

/// Decodes a file; also a pipe. Throws Error as `decode_image` does, and if the file cannot be read.
LAMINA_API Image read_image(const std::filesystem::path& path);

/// Writes a PNG. The file appears whole or not at all: on failure an old one stays as it was. Throws Error if the
/// image has no pixels, `rgb` is not [height, width, 3], or the file cannot be written.
LAMINA_API void write_png(const std::filesystem::path& path, const Image& image);

namespace detail {

/// Throws Error unless the image has pixels and `rgb` has the size that `width` and `height` say.
void require_consistent(const Image& image);

}  // namespace detail
}  // namespace lamina
