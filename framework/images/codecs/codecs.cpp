#include <algorithm>
#include <cstring>

#include "lamina/images/codecs/codec.h"

// Which formats there are, and how each is told from the others.
#ifndef LAMINA_WITH_LIBJPEG
std::string_view lamina::jpeg_decoder() { return "none"; }
#endif

namespace lamina::detail {
namespace {

using Bytes = std::span<const std::byte>;

bool starts(Bytes bytes, std::string_view mark, std::size_t at = 0) {
  return bytes.size() >= at + mark.size() && std::memcmp(bytes.data() + at, mark.data(), mark.size()) == 0;
}

int byte(Bytes bytes, std::size_t at) { return std::to_integer<int>(bytes[at]); }

bool is_png(Bytes bytes) { return starts(bytes, "\x89PNG\r\n\x1a\n"); }

/// "BM", then a header size below 256 at offset 14: enough to tell it from text that happens to begin so.
bool is_bmp(Bytes bytes) {
  return starts(bytes, "BM") && bytes.size() >= 18 && byte(bytes, 15) == 0 && byte(bytes, 16) == 0 &&
         byte(bytes, 17) == 0;
}

bool is_pnm(Bytes bytes, char kind) {
  constexpr std::string_view next = " \t\n\v\f\r#";
  return bytes.size() >= 3 && byte(bytes, 0) == 'P' && byte(bytes, 1) == kind &&
         next.find(static_cast<char>(byte(bytes, 2))) != std::string_view::npos;
}

bool is_tga(Bytes bytes) {
  if (bytes.size() < 18) return false;
  const int map = byte(bytes, 1), type = byte(bytes, 2) & ~8, bits = byte(bytes, 16);
  const bool palette = map == 1 && type == 1 && (bits == 8 || bits == 16);
  const bool colour = map == 0 && type == 2 && (bits == 15 || bits == 16 || bits == 24 || bits == 32);
  const bool grey = map == 0 && type == 3 && (bits == 8 || bits == 16);
  const bool pixels = (byte(bytes, 12) | byte(bytes, 13)) != 0 && (byte(bytes, 14) | byte(bytes, 15)) != 0;
  return (palette || colour || grey) && pixels && (byte(bytes, 17) & 0xc0) == 0;  // rows in order
}

constexpr auto gif = [](Bytes bytes) { return starts(bytes, "GIF87a") || starts(bytes, "GIF89a"); };
constexpr auto pgm = [](Bytes bytes) { return is_pnm(bytes, '5'); };
constexpr auto ppm = [](Bytes bytes) { return is_pnm(bytes, '6'); };
// Both are of formats that a build may be without.
[[maybe_unused]] constexpr auto jpeg = [](Bytes bytes) { return starts(bytes, "\xff\xd8\xff"); };
[[maybe_unused]] constexpr auto webp = [](Bytes bytes) { return starts(bytes, "RIFF") && starts(bytes, "WEBP", 8); };

}  // namespace

bool is_heic(Bytes head) {
  return starts(head, "ftyphe", 4) || starts(head, "ftypmif1", 4) || starts(head, "ftypmsf1", 4);
}

bool is_avif(Bytes head) { return starts(head, "ftypavif", 4) || starts(head, "ftypavis", 4); }

bool is_tiff(Bytes head) {
  using namespace std::string_view_literals;
  return starts(head, "II*\0"sv) || starts(head, "MM\0*"sv);
}

std::vector<Codec>& codecs() {
  static auto table = std::vector<Codec>({
      {"PNG", ".png.", is_png, check_png, decode_png},
#ifdef LAMINA_WITH_LIBJPEG
      {"JPEG", ".jpg.jpeg.", jpeg, check_jpeg, decode_jpeg},
#endif
      {"GIF", ".gif.", gif, check_gif, decode_gif},
      {"BMP", ".bmp.", is_bmp, check_bmp, decode_bmp},
      {"PGM", ".pgm.", pgm, check_pnm, decode_pnm},
      {"PPM", ".ppm.", ppm, check_pnm, decode_pnm},
#ifdef LAMINA_WITH_WEBP
      {"WebP", ".webp.", webp, check_webp, decode_webp},
#endif
#ifdef LAMINA_WITH_HEIF
      {"HEIC", ".heic.heif.", is_heic, check_heic, decode_heic},
      {"AVIF", ".avif.", is_avif, check_heic, decode_heic},
#endif
#ifdef LAMINA_WITH_TIFF
      {"TIFF", ".tif.tiff.", is_tiff, check_tiff, decode_tiff},
#endif
      {"TGA", ".tga.", is_tga, check_tga, decode_tga},
  });
  return table;
}

const Codec* codec_of(std::span<const std::byte> bytes) {
  const Bytes head = bytes.first(std::min<std::size_t>(bytes.size(), 32));
  const auto found = std::ranges::find_if(codecs(), [&](const Codec& codec) { return codec.recognises(head); });
  return found == codecs().end() ? nullptr : &*found;
}

}  // namespace lamina::detail
