#pragma once

#include <optional>
#include <string>

namespace lamina::app {

struct FontFile {
  std::string path;
  int index = 0;  ///< of the font in a collection
};

/// The font that fontconfig would take for a letter, out of those that the system's administrator installed. Nothing
/// where there is no fontconfig; whether the font has the letter is left to whoever opens it.
std::optional<FontFile> system_font(char32_t letter);

}  // namespace lamina::app
