#include "pictures/png.h"

#include <fstream>
#include <string_view>

#include "lamina/images/codecs/codec.h"

using namespace std::literals;

namespace lamina::app {
namespace {

// Behind the signature and the header, which have always the same length; its length before it, its CRC-32 behind it.
constexpr std::size_t after_header = 8 + 25;
constexpr std::string_view mark = "\0\0\0\17tEXtSoftware\0Lamina\x42\x55\x03\xe7"sv;

// In a JPEG a comment, behind its start and the segment that says it is one.
constexpr std::size_t after_start = 2 + 18;
constexpr std::string_view comment = "\xff\xfe\0\10Lamina"sv;

}  // namespace

std::string jpeg_of(const Image& image) { return detail::encode_jpeg(image).insert(after_start, comment); }

bool is_drawn(const std::filesystem::path& path) {
  std::string head(after_header + mark.size(), '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.ends_with(mark) || std::string_view(head).substr(after_start).starts_with(comment);
}

}  // namespace lamina::app

#ifndef LAMINA_WITH_ZLIB

std::string lamina::app::png_of(const Image& image) { return detail::encode_png(image).insert(after_header, mark); }

#else

#include <zlib.h>

#include <algorithm>

namespace lamina::app {
namespace {

constexpr int level = 3;  // beyond it a drawing takes twice the time to become 4 % smaller

std::string big(unsigned long value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
  return text;
}

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

std::string chunk(const std::string& name_and_data) {
  const auto size = static_cast<uInt>(name_and_data.size());
  return big(size - 4) + name_and_data + big(crc32(0, bytes_of(name_and_data), size));
}

/// Each row as its difference to the one above, with that filter's number before it.
std::string filtered(const Image& image) {
  const auto row = static_cast<std::size_t>(image.width) * 3, height = static_cast<std::size_t>(image.height);
  std::string result((row + 1) * height, '\2');
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* here = image.rgb.data() + y * row;
    char* out = result.data() + y * (row + 1) + 1;
    for (std::size_t i = 0; i < row; ++i) out[i] = static_cast<char>(here[i] - (y == 0 ? 0 : here[i - row]));
  }
  return result;
}

}  // namespace

std::string png_of(const Image& image) {
  detail::require_consistent(image);
  const std::string plain = filtered(image);
  std::string data(compressBound(plain.size()), '\0');
  uLongf size = data.size();
  if (compress2(reinterpret_cast<Bytef*>(data.data()), &size, bytes_of(plain), plain.size(), level) != Z_OK) {
    throw std::bad_alloc();
  }
  data.resize(size);
  const auto width = static_cast<unsigned long>(image.width), height = static_cast<unsigned long>(image.height);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR" + big(width) + big(height) + std::string("\10\2\0\0\0", 5)) +
         std::string(mark) + chunk("IDAT" + data) + chunk("IEND");
}

}  // namespace lamina::app

#endif
