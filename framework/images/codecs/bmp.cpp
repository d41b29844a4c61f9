#include <array>
#include <bit>

#include "lamina/images/codecs/codec.h"

// Not through stb_image: it reads truncated files as whole ones, refuses a gap before the pixels, loses colours of
// OS/2 palettes, and widens 5- and 6-bit samples to other levels than Pillow does.
namespace lamina::detail {
namespace {

struct Bmp {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool top_down = false;
  std::uint32_t bits = 0;  // per pixel
  std::uint32_t compression = 0;
  std::uint64_t palette_at = 0;  // bytes from the start of the file
  std::uint32_t palette_entry = 4;
  std::uint32_t palette_size = 0;
  std::uint64_t pixels_at = 0;
};

/// Bits of one colour within a pixel.
struct Channel {
  std::uint32_t mask = 0;

  std::uint8_t extract(std::uint32_t pixel) const {
    const int shift = std::countr_zero(mask);
    const std::uint32_t value = (pixel & mask) >> shift, largest = mask >> shift;
    return static_cast<std::uint8_t>(largest == 255 ? value : std::uint64_t{value} * 255 / largest);
  }
};

Bmp read_header(const EncodedImage& file) {
  Bmp bmp;
  bmp.pixels_at = file.le32(10);
  const std::uint32_t header = file.le32(14);
  bmp.palette_at = 14 + header;
  if (header == 12) {  // OS/2 1.x
    bmp.width = file.le16(18);
    bmp.height = file.le16(20);
    bmp.bits = file.le16(24);
    bmp.palette_entry = 3;
  } else if (header == 40 || header == 52 || header == 56 || header == 64 || header == 108 || header == 124) {
    bmp.width = static_cast<std::int32_t>(file.le32(18));
    bmp.height = static_cast<std::int32_t>(file.le32(22));
    bmp.top_down = bmp.height < 0;
    if (bmp.top_down) bmp.height = -bmp.height;
    bmp.bits = file.le16(28);
    bmp.compression = file.le32(30);
    bmp.palette_size = file.le32(46);
  } else {
    file.fail("not a kind of BMP Lamina reads: its header has ", header, " bytes");
  }
  file.require(bmp.palette_at);
  file.require_size(bmp.width, bmp.height);
  if (bmp.compression == 1 || bmp.compression == 2) file.fail("run-length encoded BMP is not read; save it as PNG");
  if (bmp.compression != 0 && bmp.compression != 3) {
    file.fail("BMP with compression ", bmp.compression, " is not read; save it as PNG");
  }
  const bool packed = bmp.bits == 16 || bmp.bits == 24 || bmp.bits == 32;
  if (!packed && (bmp.compression != 0 || (bmp.bits != 1 && bmp.bits != 4 && bmp.bits != 8))) {
    file.fail("BMP with ", bmp.bits, " bits per pixel is not read; save it as PNG");
  }
  return bmp;
}

std::array<Channel, 3> read_masks(const EncodedImage& file, const Bmp& bmp) {
  std::array<Channel, 3> rgb{{{0xff0000}, {0xff00}, {0xff}}};
  if (bmp.bits == 16) rgb = {{{0x7c00}, {0x3e0}, {0x1f}}};
  if (bmp.compression != 3) return rgb;
  // Inside the longer headers and behind the 40-byte one: at the same place in the file.
  const std::array<Channel, 3> stored{{{file.le32(54)}, {file.le32(58)}, {file.le32(62)}}};
  if ((stored[0].mask | stored[1].mask | stored[2].mask) == 0) return rgb;
  for (const Channel& channel : stored) {
    const std::uint32_t ones = channel.mask >> std::countr_zero(channel.mask | 0x80000000u);
    if (channel.mask == 0 || (ones & (ones + 1)) != 0) file.fail("damaged: a BMP colour mask is empty or has gaps");
  }
  return stored;
}

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

Palette read_palette(const EncodedImage& file, const Bmp& bmp) {
  const std::uint32_t most = 1u << bmp.bits;
  const std::uint32_t count = bmp.palette_size == 0 || bmp.palette_size > most ? most : bmp.palette_size;
  const std::uint8_t* entry = file.data(bmp.palette_at, std::size_t{count} * bmp.palette_entry);
  Palette palette{};  // an index past its end is black
  for (std::uint32_t i = 0; i < count; ++i, entry += bmp.palette_entry) palette[i] = {entry[2], entry[1], entry[0]};
  return palette;
}

}  // namespace

ImageSize check_bmp(const EncodedImage& file) {
  const Bmp bmp = read_header(file);
  return plain_size(file, bmp.width, bmp.height);
}

Image decode_bmp(const EncodedImage& file, const ImageSize& size, bool) {
  const Bmp bmp = read_header(file);
  const auto width = static_cast<std::size_t>(bmp.width);
  const auto height = static_cast<std::size_t>(bmp.height);
  const std::size_t row_bytes = (width * bmp.bits + 7) / 8;
  const std::size_t stride = (row_bytes + 3) / 4 * 4;
  // Some writers leave out the padding of the last row.
  file.require(bmp.pixels_at + stride * (height - 1) + row_bytes);

  const bool indexed = bmp.bits <= 8;
  const Palette palette = indexed ? read_palette(file, bmp) : Palette{};
  const std::array<Channel, 3> masks = indexed ? std::array<Channel, 3>{} : read_masks(file, bmp);

  Image image = blank_image(size);
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* row = file.data(bmp.pixels_at + stride * (bmp.top_down ? y : height - 1 - y), row_bytes);
    std::uint8_t* out = image.rgb.data() + y * width * 3;
    for (std::size_t x = 0; x < width; ++x, out += 3) {
      if (indexed) {
        const std::size_t bit = x * bmp.bits;
        const auto& colour = palette[(row[bit / 8] >> (8 - bmp.bits - bit % 8)) & ((1u << bmp.bits) - 1)];
        for (std::size_t c = 0; c < 3; ++c) out[c] = colour[c];
      } else {
        std::uint32_t pixel = 0;
        for (std::size_t i = 0; i < bmp.bits / 8; ++i) {
          pixel |= static_cast<std::uint32_t>(row[x * bmp.bits / 8 + i]) << (8 * i);
        }
        for (std::size_t c = 0; c < 3; ++c) out[c] = masks[c].extract(pixel);
      }
    }
  }
  return image;
}

}  // namespace lamina::detail
