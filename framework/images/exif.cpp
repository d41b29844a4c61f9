#include "lamina/images/exif.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

// Exif 2.32: a TIFF file within a JPEG's APP1 segment, a PNG's eXIf or a WebP's EXIF chunk. Its first directory lists
// tags of 12 bytes each. The bytes are hostile: numbers past the end read as 0, which leads nowhere.
namespace lamina::detail {
namespace {

constexpr int as_stored = 1;
constexpr std::uint32_t orientation_tag = 0x0112;
constexpr std::uint32_t type_short = 3;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool has(std::size_t at, std::size_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  std::span<const std::byte> part(std::size_t at, std::size_t count) const {
    return has(at, count) ? bytes_.subspan(at, count) : std::span<const std::byte>();
  }
  bool is(std::size_t at, std::string_view text) const {
    return has(at, text.size()) && std::ranges::equal(part(at, text.size()), std::as_bytes(std::span(text)));
  }
  std::uint32_t number(std::size_t at, std::size_t count, bool big_endian) const {
    if (!has(at, count)) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (big_endian ? i : count - 1 - i)]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

int tiff_orientation(const Reader& tiff) {
  const bool big_endian = tiff.is(0, "MM");
  if (!big_endian && !tiff.is(0, "II")) return as_stored;
  const std::size_t directory = tiff.number(4, 4, big_endian);
  const std::uint32_t count = tiff.number(directory, 2, big_endian);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + 12 * std::size_t{i};
    if (!tiff.has(entry, 12)) break;
    if (tiff.number(entry, 2, big_endian) != orientation_tag) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2, big_endian);
    const bool valid = tiff.number(entry + 2, 2, big_endian) == type_short && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : as_stored;
  }
  return as_stored;
}

int jpeg_orientation(const Reader& file) {
  using namespace std::string_view_literals;
  for (std::size_t at = 2; file.number(at, 1, true) == 0xff;) {
    const std::uint32_t marker = file.number(at + 1, 1, true);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) break;  // the pixels begin
    const std::size_t length = file.number(at + 2, 2, true);
    if (length < 2) break;
    if (marker == 0xe1 && file.is(at + 4, "Exif\0\0"sv) && length >= 8) {
      return tiff_orientation(Reader(file.part(at + 10, length - 8)));
    }
    at += 2 + length;
  }
  return as_stored;
}

int png_orientation(const Reader& file) {
  for (std::size_t at = 8; file.has(at, 12);) {
    const std::size_t length = file.number(at, 4, true);
    if (file.is(at + 4, "eXIf")) return tiff_orientation(Reader(file.part(at + 8, length)));
    if (file.is(at + 4, "IEND")) break;
    at += 12 + length;
  }
  return as_stored;
}

/// RIFF: chunks of a name, a length and data of an even number of bytes.
int webp_orientation(const Reader& file) {
  using namespace std::string_view_literals;
  for (std::size_t at = 12; file.has(at, 8);) {
    const std::size_t length = file.number(at + 4, 4, false), data = at + 8;
    const std::size_t prefix = file.is(data, "Exif\0\0"sv) ? 6 : 0;  // as in a JPEG, which some programs write
    if (file.is(at, "EXIF") && length >= prefix) {
      return tiff_orientation(Reader(file.part(data + prefix, length - prefix)));
    }
    at = data + length + (length & 1);
  }
  return as_stored;
}

}  // namespace

int exif_orientation(std::span<const std::byte> bytes) {
  const Reader file(bytes);
  if (file.is(0, "\xff\xd8\xff")) return jpeg_orientation(file);
  if (file.is(0, "\x89PNG")) return png_orientation(file);
  if (file.is(0, "RIFF") && file.is(8, "WEBP")) return webp_orientation(file);
  return as_stored;
}

Image oriented(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool transposed = orientation >= 5;
  // Where pixel (0, 0) of the result comes from, and how far apart in the source its neighbours are.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const std::ptrdiff_t width = image.width, height = image.height;
  const std::ptrdiff_t along = from_right ? -3 : 3, down = from_bottom ? -3 * width : 3 * width;
  const std::ptrdiff_t first = (from_right ? 3 * (width - 1) : 0) + (from_bottom ? 3 * width * (height - 1) : 0);
  Image result{image.width, image.height, std::vector<std::uint8_t>(image.rgb.size()), std::move(image.warning)};
  if (transposed) std::swap(result.width, result.height);
  const std::ptrdiff_t x_step = transposed ? down : along, y_step = transposed ? along : down;
  // In squares: across rows that lie megabytes apart, every pixel would be a cache miss.
  constexpr int side = 64;
  for (int top = 0; top < result.height; top += side) {
    for (int left = 0; left < result.width; left += side) {
      for (int y = top; y < std::min(top + side, result.height); ++y) {
        const std::uint8_t* in = image.rgb.data() + first + y * y_step;
        std::uint8_t* out = result.rgb.data() + (std::ptrdiff_t{y} * result.width + left) * 3;
        for (int x = left; x < std::min(left + side, result.width); ++x, out += 3) std::copy_n(in + x * x_step, 3, out);
      }
    }
  }
  return result;
}

}  // namespace lamina::detail
