#include "pictures/letters.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/mapped_file.h"
#include "pictures/font.h"
#include "pictures/system_font.h"

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#define STBTT_STATIC
#define STB_TRUETYPE_IMPLEMENTATION
#include <stb_truetype.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace lamina::app {
namespace {

constexpr char32_t unreadable = 0xFFFD;

constexpr float capital_height = 0.729f;  // of the letters that are drawn, in ems

struct Font {
  stbtt_fontinfo info{};
  std::shared_ptr<const detail::MappedFile> file;  // null: the command's own
};

bool open(Font& font, const unsigned char* bytes, int index) {
  const int offset = stbtt_GetFontOffsetForIndex(bytes, index);
  return offset >= 0 && stbtt_InitFont(&font.info, bytes, offset) != 0;
}

/// A letter in the first font that has it, if one does.
struct Glyph {
  const stbtt_fontinfo* font = nullptr;
  int index = 0;
};

Glyph in_own_font(char32_t letter) {
  static const Font own = [] {
    Font font;
    if (!open(font, font_bytes, 0)) detail::fail("the font of the pictures' letters is damaged");
    return font;
  }();
  const int index = letter == unreadable ? 0 : stbtt_FindGlyphIndex(&own.info, static_cast<int>(letter));
  return index == 0 ? Glyph() : Glyph{&own.info, index};
}

/// stb_truetype trusts a font's offsets, so that only those which the system's administrator installed are opened.
Glyph in_system_fonts(char32_t letter) {
  static std::mutex mutex;
  static std::map<char32_t, Glyph> known;
  static std::map<std::pair<std::string, int>, Font> fonts;
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(letter); found != known.end()) return found->second;
  Glyph& glyph = known[letter];
  const std::optional<FontFile> file = system_font(letter);
  if (!file) return glyph;
  const auto [font, is_new] = fonts.try_emplace({file->path, file->index});
  if (is_new) {
    try {
      font->second.file = detail::MappedFile::open(file->path);
    } catch (const Error&) {
      return glyph;
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(font->second.file->bytes().data());
    if (!open(font->second, bytes, file->index)) font->second.file = nullptr;
  }
  if (font->second.file == nullptr) return glyph;
  const stbtt_fontinfo& info = font->second.info;
  const int index = stbtt_FindGlyphIndex(&info, static_cast<int>(letter));
  if (index != 0 && stbtt_IsGlyphEmpty(&info, index) == 0) glyph = {&info, index};
  return glyph;
}

bool is_space(char32_t c) { return c == 0xA0 || c == 0x3000 || (c >= 0x2000 && c <= 0x200A); }

Glyph find(char32_t letter) {
  const Glyph own = in_own_font(is_space(letter) ? U' ' : letter);
  return own.font != nullptr || letter == unreadable ? own : in_system_fonts(letter);
}

/// Signs that only say how others are to be drawn: joiners, directions, variants.
bool is_invisible(char32_t c) {
  return c == 0xAD || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
         (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF;
}

float em_of(int size) { return static_cast<float>(size) / capital_height; }

float advance_of(const Glyph& glyph, float em) {
  int advance = 0, bearing = 0;
  stbtt_GetGlyphHMetrics(glyph.font, glyph.index, &advance, &bearing);
  return static_cast<float>(advance) * stbtt_ScaleForMappingEmToPixels(glyph.font, em);
}

/// The text's letters; of those that no font has, the number in words: [U+5199].
std::vector<Glyph> glyphs_of(std::u32string_view text) {
  std::vector<Glyph> result;
  for (const char32_t letter : text) {
    if (is_invisible(letter)) continue;
    if (const Glyph glyph = find(letter); glyph.font != nullptr) {
      result.push_back(glyph);
      continue;
    }
    std::array<char, 16> number{};
    std::snprintf(number.data(), number.size(), "[U+%04X]", static_cast<unsigned>(letter));
    for (const char c : std::string_view(number.data())) result.push_back(in_own_font(static_cast<char32_t>(c)));
  }
  return result;
}

using Ink = std::function<void(int, int, std::uint8_t)>;

void draw_glyph(const Glyph& glyph, float x, float em, int size, std::vector<unsigned char>& pixels, const Ink& ink) {
  const float scale = stbtt_ScaleForMappingEmToPixels(glyph.font, em);
  const float whole = std::floor(x), part = x - whole;
  int left = 0, top = 0, right = 0, bottom = 0;
  stbtt_GetGlyphBitmapBoxSubpixel(glyph.font, glyph.index, scale, scale, part, 0, &left, &top, &right, &bottom);
  const int width = right - left, height = bottom - top;
  if (width <= 0 || height <= 0 || width > 20 * size || height > 20 * size) return;  // a space, or nonsense
  pixels.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 0);
  stbtt_MakeGlyphBitmapSubpixel(glyph.font, pixels.data(), width, height, width, scale, scale, part, 0, glyph.index);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const std::uint8_t amount =
          pixels[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column)];
      if (amount != 0) ink(static_cast<int>(whole) + left + column, size + top + row, amount);
    }
  }
}

}  // namespace

std::u32string code_points(std::string_view utf8) {
  std::u32string result;
  for (std::size_t i = 0; i < utf8.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(utf8[at]); };
    const unsigned char first = byte(i);
    const std::size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    char32_t letter = length == 1 ? first : first & (0x7Fu >> length);
    bool good = first < 0x80 || (first >= 0xC2 && first <= 0xF4 && i + length <= utf8.size());
    for (std::size_t k = 1; good && k < length; ++k) {
      good = (byte(i + k) & 0xC0) == 0x80;
      letter = (letter << 6) | (byte(i + k) & 0x3Fu);
    }
    // Longer than need be, half of a UTF-16 pair, or beyond the last.
    constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && letter >= least[length] && letter <= 0x10FFFF && (letter < 0xD800 || letter > 0xDFFF);
    i += good ? length : 1;
    const bool control = letter < 0x20 || (letter >= 0x7F && letter < 0xA0);
    result.push_back(good && !control ? letter : unreadable);
  }
  return result;
}

std::string utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t letter : text) {
    const int more = letter < 0x80 ? 0 : letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    constexpr unsigned marks[] = {0, 0xC0, 0xE0, 0xF0};
    result += static_cast<char>(marks[more] | (letter >> (6 * more)));
    for (int shift = 6 * (more - 1); shift >= 0; shift -= 6) {
      result += static_cast<char>(0x80u | ((letter >> shift) & 0x3Fu));
    }
  }
  return result;
}

float letters_width(std::u32string_view text, int size) {
  float width = 0;
  for (const Glyph& glyph : glyphs_of(text)) width += advance_of(glyph, em_of(size));
  return width;
}

void draw_letters(std::u32string_view text, int size, const Ink& ink) {
  const float em = em_of(size);
  std::vector<unsigned char> pixels;
  float x = 0;
  for (const Glyph& glyph : glyphs_of(text)) {
    draw_glyph(glyph, x, em, size, pixels, ink);
    x += advance_of(glyph, em);
  }
}

}  // namespace lamina::app
