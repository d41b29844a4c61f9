#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/images/image_view.h"

namespace lamina {

/// An 8-bit RGB picture.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
  std::string warning = {};       ///< "NAME: …" if the file has a fault, but its pixels could be read

  /// Throws Error unless there are pixels, and `rgb` has the size that `width` and `height` say.
  LAMINA_API operator ImageView() const;  // NOLINT: meant to convert
  friend bool operator==(const Image&, const Image&) = default;
};

/// Which way up a picture is returned. A camera stores the picture as its sensor sees it, and notes in the EXIF data
/// how it was held.
enum class Orientation : std::uint8_t {
  as_stored,  ///< the note is ignored, as torchvision does
  upright,    ///< turned and mirrored as the note says
};

/// What happens to transparent pixels. They have a hidden colour, often black.
enum class Transparency : std::uint8_t {
  ignored,   ///< the hidden colours show, as with torchvision
  on_white,  ///< laid on white, as Pillow's `paste` with the picture as its own mask does; not for JPEG, BMP, TGA, PGM
             ///< and PPM
};

/// How a picture is read.
struct ImageOptions {
  Orientation orientation = Orientation::as_stored;
  Transparency transparency = Transparency::ignored;
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();  ///< bytes that decoding may take at its height
};

/// As people see a photograph, and as the command, Python and C read it.
inline constexpr ImageOptions as_seen = {.orientation = Orientation::upright, .transparency = Transparency::on_white};

/// Larger pictures are refused before memory for their pixels is allocated. This limit is 750 MB of RGB; phones make
/// pictures of 200 million pixels.
inline constexpr std::int64_t max_image_pixels = 250'000'000;

/// Larger files are refused.
inline constexpr std::size_t max_image_file_bytes = std::size_t{1} << 30;

/// Whether `decode_image` may be able to read a file that starts with these bytes. Only the content matters. TGA has no
/// signature, so a header that makes sense as TGA counts as one.
LAMINA_API bool is_image(std::span<const std::byte> bytes);

/// The formats that this build reads. It always reads PNG, GIF (the first frame), BMP, PGM, PPM and TGA. It reads JPEG,
/// WebP, HEIC and AVIF, and TIFF (the first picture) if libjpeg-turbo, libwebp, libheif and libtiff were there when it
/// was built.
LAMINA_API std::string image_formats();

/// Decodes a picture in one of the `image_formats()`. The content tells the format. Errors contain `name`.
///
/// The pixels are those of Pillow's `Image.open(...).convert("RGB")`. Alpha is dropped, unless `options` asks for white
/// behind it. Grey is replicated, and palettes are looked up. Gamma and colour profiles are ignored. EXIF orientation
/// is ignored too, unless `options` asks for it. There are two exceptions. 16-bit grey samples keep their high byte;
/// Pillow would turn everything from 255 up to white. HEIC, AVIF and TIFF have the pixels of libheif and libtiff, and
/// are always turned as these formats say.
///
/// Throws Error if the bytes are not a picture, or have a format that is not read (the message names it). Throws Error
/// too if they are damaged or truncated, have more than `max_image_pixels`, or need more than `options.memory`. Bytes
/// after the picture are ignored.
LAMINA_API Image decode_image(std::span<const std::byte> bytes, std::string_view name,
                              const ImageOptions& options = {});

/// About the most memory that `decode_image` takes for these bytes, with the result but without the bytes themselves.
/// The header tells it, before anything is allocated. Throws Error as `decode_image` does if they are not a picture.
LAMINA_API std::uint64_t decoding_memory(std::span<const std::byte> bytes, std::string_view name,
                                         const ImageOptions& options = {});

/// The JPEG decoder of this build: "libjpeg-turbo 2.1.5", which gives the same bits as Pillow and torchvision, or
/// "none".
LAMINA_API std::string_view jpeg_decoder();

/// Decodes a regular file, or the data from /dev/stdin or /dev/fd/N; not a named pipe or a device. Throws Error as
/// `decode_image` does, and if the file cannot be read.
LAMINA_API Image read_image(const std::string& path, const ImageOptions& options = {});

/// Writes a PNG. The file appears whole or not at all; if it fails, an old file stays as it was. Throws Error if the
/// image has no pixels, if `rgb` is not [height, width, 3], or if the file cannot be written.
LAMINA_API void write_png(const std::string& path, const Image& image);

namespace detail {

/// Whether a file of that name should be a picture that this build reads.
LAMINA_API bool is_named_like_image(const std::string& path);

/// All of a picture's file. Throws Error if it cannot be read or is larger than `max_image_file_bytes`.
std::vector<std::byte> read_image_file(const std::string& path);

/// Throws Error unless the image has pixels and `rgb` has the size that `width` and `height` say.
void require_consistent(const Image& image);

}  // namespace detail
}  // namespace lamina
