#include "lamina/images/codecs/codec.h"

// The first picture of a GIF, which stb_image decodes.
namespace lamina::detail {
namespace {

/// Past sub-blocks of a length and as many bytes, the last of which is empty.
std::size_t after_gif_blocks(const EncodedImage& file, std::size_t at) {
  while (const std::size_t length = file.u8(at)) at += 1 + length;
  return at + 1;
}

/// Bytes of the table of colours that these flags announce.
std::size_t gif_table_bytes(std::uint32_t flags) { return (flags & 0x80) != 0 ? std::size_t{6} << (flags & 7) : 0; }

}  // namespace

// GIF89a: signature, screen, blocks that begin with 0x21 (extensions), 0x2c (a picture) or 0x3b (the end).
ImageSize check_gif(const EncodedImage& file) {
  const std::int64_t width = file.le16(6), height = file.le16(8);
  file.require_size(width, height);
  bool alpha = false;
  std::size_t at = 13 + gif_table_bytes(file.u8(10));
  for (; file.u8(at) == 0x21; at = after_gif_blocks(file, at + 2)) {
    if (file.u8(at + 1) == 0xf9 && file.u8(at + 2) >= 4) alpha = (file.u8(at + 3) & 1) != 0;
  }
  if (file.u8(at) == 0x3b) file.fail("damaged: a GIF without an image");
  if (file.u8(at) != 0x2c) file.fail("damaged: an unknown GIF block at byte ", at);
  const bool whole =
      file.le16(at + 1) == 0 && file.le16(at + 3) == 0 && file.le16(at + 5) == width && file.le16(at + 7) == height;
  after_gif_blocks(file, at + 10 + gif_table_bytes(file.u8(at + 9)) + 1);
  // 12 bits are a colour 4,096 times at the most; a small first picture may lie on a larger screen.
  const auto pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  constexpr std::uint64_t usual = std::uint64_t{1} << 24;
  file.require_data(width, height, pixels > usual ? pixels / 4096 : 0, file.size(), "GIF");
  // stb_image keeps RGBA twice and a byte for each pixel until it has made RGB of them.
  return {static_cast<int>(width), static_cast<int>(height), 12 * pixels, alpha || !whole};
}

}  // namespace lamina::detail
