#include "lamina/base/names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

// A file may name a million tensors with a megabyte each; suggestions are worth no more work than this.
constexpr std::size_t longest_compared = 64;
constexpr std::size_t max_candidates = 10'000;

constexpr std::size_t longest_quoted = 200;

/// Levenshtein: the fewest insertions, deletions and replacements of single bytes.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // distances from a[0, i) to every b[0, j)
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Of names, which mostly begin alike and end alike: what they have in common costs nothing.
std::size_t distance(std::string_view a, std::string_view b) {
  if (a.size() > 2 && b.find(a) != std::string_view::npos) return b.size() > a.size();  // a part of it
  const std::size_t begin = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  return edit_distance(a.substr(0, longest_compared), b.substr(0, longest_compared));
}

/// Bytes of the control character that `text` begins with; 0 where it begins with none. U+0080 to U+009F, two bytes of
/// UTF-8, are control characters too: U+009B begins a terminal's commands as ESC [ does.
std::size_t control_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return byte(0) == 0xc2 && text.size() > 1 && byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
}

/// `kept`: control characters that stay; `marked`: characters that a backslash is put before.
void append_escaped(std::string& out, std::string_view text, std::string_view kept, std::string_view marked) {
  constexpr std::string_view digits = "0123456789abcdef";
  while (!text.empty()) {
    const std::size_t control = kept.find(text[0]) == std::string_view::npos ? control_bytes(text) : 0;
    const std::size_t taken = std::max<std::size_t>(control, 1);
    for (const char c : text.substr(0, taken)) {
      const auto code = static_cast<unsigned char>(c);
      if (control == 0 && marked.find(c) != std::string_view::npos) out += '\\';
      out += control == 0 ? std::string(1, c) : std::string{'\\', 'x', digits[code >> 4], digits[code & 15]};
    }
    text.remove_prefix(taken);
  }
}

void append_quoted(std::string& out, std::string_view text) { append_escaped(out, text, "", "\"\\"); }

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "\"";
  if (text.size() <= longest_quoted) {
    append_quoted(out, text);
  } else {
    append_quoted(out, text.substr(0, longest_quoted / 2));
    out += "...";
    append_quoted(out, text.substr(text.size() - longest_quoted / 2));
  }
  return out += '"';
}

std::string printable(std::string_view text, LineEnds line_ends) {
  std::string out;
  append_escaped(out, text, line_ends == LineEnds::kept ? "\n" : "", "");
  return out;
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                       std::size_t count) {
  candidates = candidates.first(std::min(candidates.size(), max_candidates));
  std::vector<std::pair<std::size_t, std::size_t>> ranking;  // distance, then place: equals keep their order
  for (std::size_t i = 0; i < candidates.size(); ++i) ranking.emplace_back(distance(name, candidates[i]), i);
  count = std::min(count, ranking.size());
  std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(count), ranking.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < count; ++i) nearest.push_back(candidates[ranking[i].second]);
  return nearest;
}

std::string alike_text(std::string_view name, std::span<const std::string> candidates) {
  // Of another name most letters are others, and what is nearest by them means nothing.
  const auto alike = [&](const std::string& other) {
    const std::size_t apart = distance(name, other);
    const bool begins = name.size() > 2 && other.starts_with(name.substr(0, 3));
    return apart <= 2 || 2 * apart <= std::max(name.size(), other.size()) || begins || other.find(name) != other.npos;
  };
  std::string text;
  for (const std::string& candidate : nearest_names(name, candidates)) {
    if (alike(candidate)) text += (text.empty() ? "; nearest: " : ", ") + quote(candidate);
  }
  return text;
}

std::string nearest_text(std::string_view name, std::span<const std::string> candidates) {
  if (candidates.empty()) return "; there are none";
  std::string text = alike_text(name, candidates);
  if (!text.empty()) return text;
  const std::size_t shown = candidates.size() > 4 ? 3 : candidates.size();
  for (const std::string& candidate : candidates.first(shown)) {
    text += (!text.empty() ? ", " : candidates.size() == 1 ? "; there is " : "; there are ") + quote(candidate);
  }
  return shown < candidates.size() ? concat(text, " and ", candidates.size() - shown, " more") : text;
}

std::string in_words(std::string text, Words words) {
  for (const auto& [name, word] : words) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += word.size())
      text.replace(at, name.size(), word);
  }
  return text;
}

}  // namespace lamina::detail
