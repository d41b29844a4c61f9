#include "lamina/base/names.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace lamina::detail {
namespace {

// A file may name a million tensors with a megabyte each; suggestions are worth no more work than this.
constexpr std::size_t longest_compared = 200;
constexpr std::size_t most_candidates = 10'000;

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

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    } else {
      out += {'\\', 'x', digits[code >> 4], digits[code & 15]};
    }
  }
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "\"";
  if (text.size() <= longest_quoted) {
    append_escaped(out, text);
  } else {
    append_escaped(out, text.substr(0, longest_quoted / 2));
    out += "...";
    append_escaped(out, text.substr(text.size() - longest_quoted / 2));
  }
  return out += '"';
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                       std::size_t count) {
  name = name.substr(0, longest_compared);
  candidates = candidates.first(std::min(candidates.size(), most_candidates));
  std::vector<std::pair<std::size_t, std::size_t>> ranking;  // distance, then place: equals keep their order
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    ranking.emplace_back(edit_distance(name, std::string_view(candidates[i]).substr(0, longest_compared)), i);
  }
  count = std::min(count, ranking.size());
  std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(count), ranking.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < count; ++i) nearest.push_back(candidates[ranking[i].second]);
  return nearest;
}

}  // namespace lamina::detail
