#include <algorithm>
#include <array>
#include <vector>

#include "lamina/images/codecs/codec.h"

// Not through stb_image: it reads truncated files as whole ones (and run-length packets past the end as zeros), skips
// the wrong bytes before a palette that does not begin at 0, and ignores right-to-left order.
namespace lamina::detail {
namespace {

using Colour = std::array<std::uint8_t, 3>;

/// One pixel, or palette entry, of 8 (grey), 15, 16, 24 or 32 bits. Alpha is dropped.
Colour unpack(const std::uint8_t* bytes, std::uint32_t bits, bool grey) {
  if (grey) return {bytes[0], bytes[0], bytes[0]};
  if (bits >= 24) return {bytes[2], bytes[1], bytes[0]};
  const int value = bytes[0] | bytes[1] << 8;
  const auto level = [&](int shift) { return static_cast<std::uint8_t>((value >> shift & 31) * 255 / 31); };
  return {level(10), level(5), level(0)};
}

struct ColourMap {
  std::size_t first = 0;
  std::vector<Colour> colours;

  Colour operator[](std::size_t index) const {
    return index >= first && index - first < colours.size() ? colours[index - first] : Colour{};
  }
};

ColourMap read_colour_map(const EncodedImage& file, std::size_t at, std::size_t entry_bytes) {
  const std::uint32_t bits = file.u8(7);
  if (bits != 15 && bits != 16 && bits != 24 && bits != 32) {
    file.fail("TGA palette with ", bits, " bits per entry is not read; save it as PNG");
  }
  ColourMap palette{file.le16(3), std::vector<Colour>(file.le16(5))};
  const std::uint8_t* entry = file.data(at, palette.colours.size() * entry_bytes);
  for (Colour& colour : palette.colours) {
    colour = unpack(entry, bits, false);
    entry += entry_bytes;
  }
  return palette;
}

}  // namespace

ImageSize check_tga(const EncodedImage& file) { return plain_size(file, file.le16(12), file.le16(14)); }

Image decode_tga(const EncodedImage& file, const ImageSize& size, bool) {
  const std::uint32_t type = file.u8(2) & ~8u;
  const bool run_length = (file.u8(2) & 8) != 0;
  const bool indexed = type == 1;
  const bool grey = type == 3;
  const auto width = static_cast<std::size_t>(size.width), height = static_cast<std::size_t>(size.height);
  const std::uint32_t bits = file.u8(16);
  const std::size_t pixel_bytes = (bits + 7) / 8;
  const bool right_to_left = (file.u8(17) & 0x10) != 0;
  const bool top_down = (file.u8(17) & 0x20) != 0;

  std::size_t at = 18 + file.u8(0);
  const std::size_t entry_bytes = indexed ? (file.u8(7) + 7) / 8 : 0;
  const ColourMap palette = indexed ? read_colour_map(file, at, entry_bytes) : ColourMap{};
  at += palette.colours.size() * entry_bytes;

  // A packet of 1 + pixel_bytes bytes gives 128 pixels at most, so even the fewest bytes are known before allocating.
  const std::size_t pixels = width * height;
  file.require(at + (run_length ? (pixels + 127) / 128 * (1 + pixel_bytes) : pixels * pixel_bytes));

  Image image = blank_image(size);
  for (std::size_t done = 0; done < pixels;) {
    std::size_t count = pixels;
    bool repeat = false;
    if (run_length) {
      const std::uint32_t packet = file.u8(at++);
      count = 1 + (packet & 127);
      repeat = (packet & 128) != 0;
    }
    const std::uint8_t* source = file.data(at, (repeat ? 1 : count) * pixel_bytes);
    at += (repeat ? 1 : count) * pixel_bytes;
    for (const std::size_t end = std::min(pixels, done + count); done < end; ++done) {
      const std::size_t index = pixel_bytes == 2 ? source[0] | std::size_t{source[1]} << 8 : source[0];
      const Colour colour = indexed ? palette[index] : unpack(source, bits, grey);
      const std::size_t x = right_to_left ? width - 1 - done % width : done % width;
      const std::size_t y = top_down ? done / width : height - 1 - done / width;
      std::copy(colour.begin(), colour.end(), image.rgb.begin() + static_cast<std::ptrdiff_t>((y * width + x) * 3));
      if (!repeat) source += pixel_bytes;
    }
  }
  return image;
}

}  // namespace lamina::detail
