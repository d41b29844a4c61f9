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
  std::string warning = {};       ///< "NAME: …" of a file that is not as it should be, where its pixels are

  /// Throws Error unless `rgb` has the size that `width` and `height` say, and pixels.
  LAMINA_API operator ImageView() const;  // NOLINT: meant to convert
  friend bool operator==(const Image&, const Image&) = default;
};

/// Which way up a picture is given. Cameras store it as their sensor lies and note in its EXIF data how it was held.
enum class Orientation : std::uint8_t {
  as_stored,  ///< the note is ignored, as torchvision does
  upright,    ///< turned and mirrored as the note says
};

/// What becomes of transparent pixels. Programs leave any colour behind them, often black.
enum class Transparency : std::uint8_t {
  ignored,   ///< the hidden colours show, as with torchvision
  on_white,  ///< laid on white, as Pillow's `paste` with the picture as its own mask does; all but JPEG, BMP, TGA, PGM
             ///< and PPM
};

/// How a picture is read.
struct ImageOptions {
  Orientation orientation = Orientation::as_stored;
  Transparency transparency = Transparency::ignored;
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();  ///< bytes that decoding may take at its height
};

/// Larger pictures are refused before anything is allocated for their pixels: 750 MB as RGB. Phones make 200 million.
inline constexpr std::int64_t max_image_pixels = 250'000'000;

/// Larger files are refused.
inline constexpr std::size_t max_image_file_bytes = std::size_t{1} << 30;

/// Whether these bytes, the start of a file or all of it, are a picture `decode_image` may be able to read. Looks at
/// the content only. TGA has no signature, so a header that makes sense as TGA counts as one.
LAMINA_API bool is_image(std::span<const std::byte> bytes);

/// The kinds of pictures that this build reads: PNG, GIF (its first frame), BMP, PGM, PPM and TGA, and JPEG, WebP, HEIC
/// and AVIF, and TIFF (its first picture) where libjpeg-turbo, libwebp, libheif and libtiff were there when it was
/// built.
LAMINA_API std::string image_formats();

/// Decodes a picture of one of the `image_formats()`, whichever the content says it is. `name` goes into errors.
///
/// The pixels are those of Pillow's `Image.open(...).convert("RGB")`: alpha is dropped unless `options` asks for white
/// behind it, grey replicated, palettes looked up; gamma and colour profiles are ignored, and EXIF orientation unless
/// `options` asks for it. Two exceptions: 16-bit grey samples keep their high byte, where Pillow would turn everything
/// from 255 up to white; HEIC, AVIF and TIFF are what libheif and libtiff make of them, upright in any case, as these
/// formats say they turned.
///
/// Throws Error if the bytes are no picture, a kind that is not read (the message says which), damaged or truncated,
/// have more than `max_image_pixels`, or need more than `options.memory`. Bytes after the picture are ignored.
LAMINA_API Image decode_image(std::span<const std::byte> bytes, std::string_view name,
                              const ImageOptions& options = {});

/// About the most memory that `decode_image` takes for these bytes, its result included and they themselves not: known
/// from the header, before anything is allocated. Throws Error as `decode_image` does for what is no picture.
LAMINA_API std::uint64_t decoding_memory(std::span<const std::byte> bytes, std::string_view name,
                                         const ImageOptions& options = {});

/// What decodes JPEG in this build: "libjpeg-turbo 2.1.5", whose pixels are Pillow's and torchvision's to the bit, or
/// "none".
LAMINA_API std::string_view jpeg_decoder();

/// Decodes a regular file, or what comes by /dev/stdin or /dev/fd/N, but no named pipe and no device. Throws Error as
/// `decode_image` does, and if the file cannot be read.
LAMINA_API Image read_image(const std::string& path, const ImageOptions& options = {});

/// Writes a PNG. The file appears whole or not at all: on failure an old one stays as it was. Throws Error if the
/// image has no pixels, `rgb` is not [height, width, 3], or the file cannot be written.
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
