#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "lamina/images/codecs/codec.h"

// Not through stb_image: it reads truncated files as whole ones, takes 16-bit samples in the wrong byte order, and
// ignores the largest value that the header states.
namespace lamina::detail {
namespace {

/// A number of the header, after any white space and comments; `at` moves behind it.
std::int64_t read_number(const EncodedImage& file, std::size_t& at, std::string_view what) {
  const auto is_space = [](std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (is_space(file.u8(at)) || file.u8(at) == '#') {
    if (file.u8(at++) == '#') {
      while (file.u8(at) != '\n' && file.u8(at) != '\r') ++at;
    }
  }
  std::int64_t value = 0;
  const std::size_t first = at;
  for (; file.u8(at) >= '0' && file.u8(at) <= '9'; ++at) {
    value = value * 10 + (file.u8(at) - '0');
    if (value > 0xffffffff) file.fail("damaged: the ", what, " in its header is out of range");
  }
  if (at == first) file.fail("damaged: expected the ", what, " in its header, found a byte ", file.u8(at));
  return value;
}

/// 8-bit levels of all samples 0 … 255 or 65535: scaled and rounded as Pillow does.
std::vector<std::uint8_t> levels(std::int64_t largest, bool grey) {
  std::vector<std::uint8_t> table(largest > 255 ? 65536 : 256);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double scaled = std::nearbyint(static_cast<double>(i) / static_cast<double>(largest) * 255);
    table[i] = static_cast<std::uint8_t>(std::min(scaled, 255.0));
    // 16-bit grey has no answer in Pillow, which turns it white; the high byte, as for PNG.
    if (grey && largest == 65535) table[i] = static_cast<std::uint8_t>(i >> 8);
  }
  return table;
}

}  // namespace

ImageSize check_pnm(const EncodedImage& file) {
  std::size_t at = 2;
  const std::int64_t width = read_number(file, at, "width");
  return plain_size(file, width, read_number(file, at, "height"));
}

Image decode_pnm(const EncodedImage& file, const ImageSize& size, bool) {
  const bool grey = file.u8(1) == '5';
  std::size_t at = 2;
  (void)read_number(file, at, "width");
  (void)read_number(file, at, "height");
  const std::int64_t largest = read_number(file, at, "largest value");
  ++at;  // exactly one white space: the next byte may be a pixel that looks like one
  if (largest < 1 || largest > 65535) file.fail("damaged: the largest value is ", largest, "; expected 1 to 65535");

  const std::size_t samples =
      static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) * (grey ? 1 : 3);
  const std::size_t sample_bytes = largest > 255 ? 2 : 1;
  const std::uint8_t* source = file.data(at, samples * sample_bytes);
  const std::vector<std::uint8_t> level = levels(largest, grey);

  Image image = blank_image(size);
  std::uint8_t* out = image.rgb.data();
  for (std::size_t i = 0; i < samples; ++i, source += sample_bytes) {
    const std::uint8_t value = level[sample_bytes == 2 ? std::size_t{source[0]} << 8 | source[1] : source[0]];
    out = std::fill_n(out, grey ? 3 : 1, value);
  }
  return image;
}

}  // namespace lamina::detail
