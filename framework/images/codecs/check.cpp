#include <algorithm>
#include <cstring>

#include "lamina/base/crc32.h"
#include "lamina/images/codecs/codec.h"

// Walks PNG and JPEG files from end to end before a decoder sees them.
namespace lamina::detail {
namespace {

constexpr std::uint32_t chunk_type(const char (&name)[5]) {
  std::uint32_t type = 0;
  for (int i = 0; i < 4; ++i) type = type << 8 | static_cast<unsigned char>(name[i]);
  return type;
}

}  // namespace

// https://www.w3.org/TR/png-3: signature, then chunks of length, type, data and CRC, from IHDR to IEND.
ImageSize check_png(const EncodedImage& file) {
  constexpr std::size_t signature = 8;
  file.require(signature + 12 + 13);
  if (file.be32(signature) != 13 || file.be32(signature + 4) != chunk_type("IHDR")) {
    file.fail("damaged: expected the PNG's header chunk first");
  }
  const std::int64_t width = file.be32(signature + 8), height = file.be32(signature + 12);
  const std::uint32_t depth = file.u8(signature + 16), colour = file.u8(signature + 17);

  std::uint64_t compressed = 0;
  bool alpha = colour == 4 || colour == 6;
  for (std::size_t at = signature;;) {
    const std::size_t length = file.be32(at);
    const std::uint32_t type = file.be32(at + 4);
    file.require(std::uint64_t{at} + 12 + length);
    const bool critical = (type & 1u << 29) == 0;
    if (critical) {
      if (type != chunk_type("IHDR") && type != chunk_type("PLTE") && type != chunk_type("IDAT") &&
          type != chunk_type("IEND")) {
        file.fail("damaged: an unknown PNG chunk at byte ", at);
      }
      // stb_image checks no sums, and Pillow those of critical chunks only.
      if (crc32(file.bytes().subspan(at + 4, 4 + length)) != file.be32(at + 8 + length)) {
        file.fail("damaged: the checksum of the PNG chunk at byte ", at, " does not match");
      }
    }
    if (at == signature) file.require_size(width, height);
    if (type == chunk_type("IDAT")) compressed += length;
    alpha = alpha || type == chunk_type("tRNS");
    at += 12 + length;
    if (type == chunk_type("IEND")) break;
  }
  // Deflate shrinks 1032-fold at best, so a giant with too little behind it is known before it is allocated.
  const std::uint64_t pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  const std::uint64_t samples = pixels * (colour == 2 ? 3u : colour == 4 ? 2u : colour == 6 ? 4u : 1u);
  const std::uint64_t expanded = samples * depth / 8, unpacked = depth == 16 ? 2 * samples : samples;
  file.require_data(width, height, expanded / 1032, compressed, "PNG");
  // What stb_image has at once: the compressed data, collected in a buffer that doubles, and what they expand to; then
  // that and the samples; then those and as many of 8 bits or the palette's colours; then RGB twice, or RGBA and RGB.
  const std::uint64_t memory =
      std::max({2 * compressed + expanded, expanded + unpacked + (colour == 3 ? 4 * pixels : 0), unpacked + samples,
                samples + 3 * pixels, (alpha ? 7 : 6) * pixels});
  return {static_cast<int>(width), static_cast<int>(height), memory, alpha};
}

// ITU-T T.81: SOI, segments of marker and length, entropy-coded data after each SOS, EOI, which may be missing: the
// decoder sees whether all pixels are there.
ImageSize check_jpeg(const EncodedImage& file) {
  constexpr int max_scans = 500;  // progressive encoders make about ten
  constexpr std::uint32_t end_marker = 0xd9;
  ImageSize size;
  std::uint32_t channels = 0, area = 0, largest_area = 1;  // of sampling factors: of all components, of one
  bool progressive = false;
  int adobe_transform = -1, scans = 0;
  std::size_t at = 2;
  const auto next_marker = [&] {
    // Skips entropy-coded data, in which 0xff is followed by 0 or a restart marker, and fill bytes.
    while (at < file.size()) {
      const auto rest = file.bytes().subspan(at);
      const void* found = std::memchr(rest.data(), 0xff, rest.size());
      if (found == nullptr) break;
      at += static_cast<std::size_t>(static_cast<const std::byte*>(found) - rest.data()) + 1;
      if (at == file.size()) break;
      const std::uint32_t marker = file.u8(at);
      if (marker == 0xff) continue;
      ++at;
      if (marker != 0 && (marker < 0xd0 || marker > 0xd7)) return marker;
    }
    if (scans == 0) file.fail("truncated: expected the JPEG's end marker, the file ends before it");
    return end_marker;
  };

  for (std::uint32_t marker = next_marker(); marker != end_marker; marker = next_marker()) {
    if (marker == 0x01 || marker == 0xd8) continue;  // no length follows
    const std::size_t length = file.be16(at);
    const std::size_t end = at + length;
    if (length < 2) file.fail("damaged: a JPEG segment of ", length, " bytes at byte ", at);
    file.require(end);
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      if (marker > 0xc2) file.fail("lossless, hierarchical or arithmetic-coded JPEG is not read");
      if (file.u8(at + 2) != 8) file.fail("JPEG with ", file.u8(at + 2), " bits per sample is not read; expected 8");
      size = {static_cast<int>(file.be16(at + 5)), static_cast<int>(file.be16(at + 3))};
      channels = file.u8(at + 7);
      file.require_size(size.width, size.height);
      progressive = marker == 0xc2;
      area = 0;
      for (std::size_t i = 0; i < channels && at + 8 + 3 * i + 3 <= end; ++i) {
        const std::uint32_t factors = file.u8(at + 9 + 3 * i);
        area += (factors >> 4) * (factors & 15);
        largest_area = std::max(largest_area, (factors >> 4) * (factors & 15));
      }
    } else if (marker == 0xc4) {
      // A table has no room for more than 256 symbols.
      for (std::size_t table = at + 2; table < end;) {
        std::size_t symbols = 0;
        for (std::size_t i = 1; i <= 16; ++i) symbols += file.u8(table + i);
        if (symbols > 256) file.fail("damaged: a JPEG Huffman table of ", symbols, " symbols");
        table += 17 + symbols;
      }
    } else if (marker == 0xda) {
      // Each scan may cost a pass over the whole picture, and a kilobyte can ask for a hundred of them.
      if (++scans > max_scans) file.fail("damaged: a JPEG of more than ", max_scans, " scans");
    } else if (marker == 0xee && length >= 14 && std::memcmp(file.data(at + 2, 5), "Adobe", 5) == 0) {
      adobe_transform = static_cast<int>(file.u8(at + 13));
    }
    at = end;
  }
  if (channels == 0) file.fail("damaged: a JPEG without a frame");
  if (channels == 2 || channels > 4) file.fail("JPEG of ", channels, " channels is not read");
  // Without Adobe's marker decoders guess whether the inks are inverted, and differently.
  if (channels == 4 && adobe_transform != 0 && adobe_transform != 2) {
    file.fail("a JPEG of four channels is read only if Adobe's marker says which; save it as RGB");
  }
  const std::uint64_t pixels = static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
  // Of the finest channel, each block of 64 samples has a number of a bit at least.
  file.require_data(size.width, size.height, pixels / 512, file.size(), "JPEG");
  // libjpeg-turbo decodes row by row unless the picture comes in several scans, whose coefficients of two bytes it
  // collects.
  size.memory = 3 * pixels + (progressive || scans > 1 ? 2 * (pixels * area / largest_area) : 0);
  return size;
}

}  // namespace lamina::detail
