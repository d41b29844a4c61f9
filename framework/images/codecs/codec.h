#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/images/image.h"

/// The picture formats, one .cpp each. Files are hostile: nothing is read or allocated on a header's word alone.
namespace lamina::detail {

/// The bytes of a picture, with the name that its errors carry. Every read is checked.
class EncodedImage {
 public:
  EncodedImage(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  std::size_t size() const { return bytes_.size(); }
  std::string_view name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Throws Error, calling the file truncated, unless it has at least `size` bytes.
  void require(std::uint64_t size) const {
    if (size > bytes_.size()) fail("truncated: expected at least ", size, " bytes, the file has ", bytes_.size());
  }

  /// The address of bytes [at, at + count), after checking that they are there.
  const std::uint8_t* data(std::size_t at, std::size_t count) const {
    require(std::uint64_t{at} + count);
    return reinterpret_cast<const std::uint8_t*>(bytes_.data()) + at;
  }

  std::uint32_t u8(std::size_t at) const { return data(at, 1)[0]; }
  std::uint32_t le16(std::size_t at) const { return u8(at) | u8(at + 1) << 8; }
  std::uint32_t le32(std::size_t at) const { return le16(at) | le16(at + 2) << 16; }
  std::uint32_t be16(std::size_t at) const { return u8(at) << 8 | u8(at + 1); }
  std::uint32_t be32(std::size_t at) const { return be16(at) << 16 | be16(at + 2); }

  /// Throws Error if there are no pixels or more than `max_image_pixels`.
  void require_size(std::int64_t width, std::int64_t height) const;

  /// Throws Error, calling the file damaged, if its pixels, compressed as far as the format goes, take more than `size`
  /// bytes, so that what claims more than it has is known before memory is taken for it.
  void require_data(std::int64_t width, std::int64_t height, std::uint64_t least, std::uint64_t size,
                    std::string_view format) const;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    detail::fail(name_, ": ", parts...);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view name_;
};

/// Lays pixels [count, 4], whose last byte is their opacity, on white: [count, 3], rounded as Pillow's `paste` does.
void lay_on_white(const std::uint8_t* rgba, std::size_t count, std::uint8_t* rgb);

/// What a header says.
struct ImageSize {
  int width = 0;
  int height = 0;
  std::uint64_t memory = 0;  // bytes that decoding takes at its height, the result included
  bool alpha = false;        // whether pixels may be transparent, of formats that can lay them on white
};

/// All zero.
Image blank_image(const ImageSize& size);

/// Of a format that is decoded straight into the result. Throws Error as `require_size` does.
ImageSize plain_size(const EncodedImage& file, std::int64_t width, std::int64_t height);

/// Throw Error unless the size is allowed.
ImageSize check_bmp(const EncodedImage& file);
ImageSize check_tga(const EncodedImage& file);
ImageSize check_pnm(const EncodedImage& file);

/// Throw Error unless the file is whole from its signature to its end marker, its size is allowed, and it keeps to
/// what the decoder decodes safely and as Pillow does.
ImageSize check_png(const EncodedImage& file);
ImageSize check_jpeg(const EncodedImage& file);
ImageSize check_gif(const EncodedImage& file);
ImageSize check_webp(const EncodedImage& file);
ImageSize check_tiff(const EncodedImage& file);
ImageSize check_heic(const EncodedImage& file);

/// What the check gave is `size`. `on_white`: where pixels may be transparent, and are to be laid on white.
Image decode_bmp(const EncodedImage& file, const ImageSize& size, bool on_white);
Image decode_tga(const EncodedImage& file, const ImageSize& size, bool on_white);
Image decode_pnm(const EncodedImage& file, const ImageSize& size, bool on_white);
Image decode_png(const EncodedImage& file, const ImageSize& size, bool on_white);
Image decode_gif(const EncodedImage& file, const ImageSize& size, bool on_white);   // the first frame
Image decode_jpeg(const EncodedImage& file, const ImageSize& size, bool on_white);  // these four where their libraries
Image decode_webp(const EncodedImage& file, const ImageSize& size, bool on_white);  // were found
Image decode_tiff(const EncodedImage& file, const ImageSize& size, bool on_white);
Image decode_heic(const EncodedImage& file, const ImageSize& size, bool on_white);

/// Whether a file that begins so is of a format that builds may be without: by the major brand of what phones write,
/// and of files that leave it to the list behind it.
bool is_heic(std::span<const std::byte> head);
bool is_avif(std::span<const std::byte> head);
bool is_tiff(std::span<const std::byte> head);

/// Files as bytes; a JPEG of quality 92, its colours as sharp as the rest.
std::string encode_png(const Image& image);
std::string encode_jpeg(const Image& image);

/// A format.
struct Codec {
  std::string_view name;
  std::string_view extensions;                          // of its files' names: ".jpg.jpeg."
  bool (*recognises)(std::span<const std::byte> head);  // by the first 32 bytes at most
  ImageSize (*check)(const EncodedImage& file);
  Image (*decode)(const EncodedImage& file, const ImageSize& size, bool on_white);
};

/// The formats of this build. TGA, which has no signature, is the last. Before any thread reads pictures others may be
/// put in front of it.
std::vector<Codec>& codecs();

/// The format of a file that begins so; null if it is none of them.
const Codec* codec_of(std::span<const std::byte> bytes);

}  // namespace lamina::detail
