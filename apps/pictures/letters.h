#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

/// Letters of any script, out of the font that the command carries (Latin, Greek, Cyrillic) and, for what it lacks,
/// fonts of the system. What none of them has is its number, [U+5199].
namespace lamina::app {

/// The text's code points; U+FFFD for each byte that belongs to none, and for control characters.
std::u32string code_points(std::string_view utf8);

std::string utf8(std::u32string_view text);

/// Pixels that the text takes from left to right, with capitals `size` pixels high.
float letters_width(std::u32string_view text, int size);

/// Calls ink(x, y, amount of 255) for each pixel that is not empty, the first capital's upper left corner being 0, 0.
void draw_letters(std::u32string_view text, int size,
                  const std::function<void(int x, int y, std::uint8_t amount)>& ink);

}  // namespace lamina::app
