#include "pictures/letters.h"

#include <cmath>
#include <memory>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/mapped_file.h"
#include "pictures/font.h"

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

/// Of the letters that are drawn, in ems.
constexpr float capital_height = 0.729f, box_width = 0.6f, box_margin = 0.05f;

struct Font {
  stbtt_fontinfo info{};
  std::shared_ptr<const detail::MappedFile> file;  // null: the command's own
};

bool open(Font& font, const unsigned char* bytes) {
  const int offset = stbtt_GetFontOffsetForIndex(bytes, 0);
  return offset >= 0 && stbtt_InitFont(&font.info, bytes, offset) != 0;
}

/// stb_truetype trusts a font's offsets, so that only those which the system's administrator installed are opened.
constexpr const char* system_fonts[] = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/noto/NotoSansDevanagari-Regular.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansThai-Regular.ttf",
    "/usr/share/fonts/truetype/unifont/unifont.ttf",
};

std::vector<Font> fonts_of_the_system() {
  std::vector<Font> fonts;
  for (const char* path : system_fonts) {
    Font font;
    try {
      font.file = detail::MappedFile::open(path);
    } catch (const Error&) {
      continue;
    }
    if (open(font, reinterpret_cast<const unsigned char*>(font.file->bytes().data()))) fonts.push_back(std::move(font));
  }
  return fonts;
}

/// A letter in the first font that has it; no font: a box.
struct Glyph {
  const stbtt_fontinfo* font = nullptr;
  int index = 0;
};

Glyph find(char32_t letter) {
  static const Font own = [] {
    Font font;
    if (!open(font, font_bytes)) detail::fail("the font of the pictures' letters is damaged");
    return font;
  }();
  if (letter == unreadable) return {};
  if (const int index = stbtt_FindGlyphIndex(&own.info, static_cast<int>(letter)); index != 0) {
    return {&own.info, index};
  }
  static const std::vector<Font> others = fonts_of_the_system();
  for (const Font& font : others) {
    if (const int index = stbtt_FindGlyphIndex(&font.info, static_cast<int>(letter)); index != 0) {
      return {&font.info, index};
    }
  }
  return {};
}

/// Signs that only say how others are to be drawn: joiners, directions, variants.
bool is_invisible(char32_t c) {
  return c == 0xAD || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
         (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF;
}

float em_of(int size) { return static_cast<float>(size) / capital_height; }

float advance_of(const Glyph& glyph, float em) {
  if (glyph.font == nullptr) return em * (box_width + 2 * box_margin);
  int advance = 0, bearing = 0;
  stbtt_GetGlyphHMetrics(glyph.font, glyph.index, &advance, &bearing);
  return static_cast<float>(advance) * stbtt_ScaleForMappingEmToPixels(glyph.font, em);
}

using Ink = std::function<void(int, int, std::uint8_t)>;

void draw_box(float x, float em, int size, const Ink& ink) {
  const int left = static_cast<int>(std::lround(x + em * box_margin));
  const int right = static_cast<int>(std::lround(x + em * (box_margin + box_width))) - 1;
  for (int column = left; column <= right; ++column) {
    for (int row = 0; row < size; ++row) {
      if (column == left || column == right || row == 0 || row == size - 1) ink(column, row, 160);
    }
  }
}

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
  for (const char32_t letter : text) {
    if (!is_invisible(letter)) width += advance_of(find(letter), em_of(size));
  }
  return width;
}

void draw_letters(std::u32string_view text, int size, const Ink& ink) {
  const float em = em_of(size);
  std::vector<unsigned char> pixels;
  float x = 0;
  for (const char32_t letter : text) {
    if (is_invisible(letter)) continue;
    const Glyph glyph = find(letter);
    if (glyph.font == nullptr) {
      draw_box(x, em, size, ink);
    } else {
      draw_glyph(glyph, x, em, size, pixels, ink);
    }
    x += advance_of(glyph, em);
  }
}

}  // namespace lamina::app
