#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/base/export.h"

/// Names from files, made fit for messages.
namespace lamina::detail {

/// `text` in double quotes, with control characters, quotes and backslashes escaped and the middle of a very long one
/// left out: what a file says must neither drive a terminal nor fill it.
LAMINA_API std::string quote(std::string_view text);

enum class LineEnds { escaped, kept };

/// `text` for a terminal: control characters as \x1b, all else, also beyond ASCII, as it is.
LAMINA_API std::string printable(std::string_view text, LineEnds line_ends = LineEnds::escaped);

/// The `count` candidates most like `name` by edit distance, nearest first.
LAMINA_API std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                                  std::size_t count = 3);

/// `; nearest: "a", "b"`: the end of a message that there is no `name` among the candidates; empty if none is like it.
LAMINA_API std::string alike_text(std::string_view name, std::span<const std::string> candidates);
/// The same, or `; there are "a", "b"` where none is like it; "; there are none" where there is nothing else either.
LAMINA_API std::string nearest_text(std::string_view name, std::span<const std::string> candidates);

/// What names of C++ in a message are called in another interface: each with its word there.
using Words = std::span<const std::pair<std::string_view, std::string_view>>;
LAMINA_API std::string in_words(std::string text, Words words);

}  // namespace lamina::detail
