#include "lamina/base/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

constexpr std::string_view white_space = " \t\n\v\f\r";

bool is_number(const std::string& text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

/// The next word of `text` from `at`, empty at the end; `at` moves behind it.
std::string_view next_word(std::string_view text, std::size_t& at) {
  const std::size_t begin = std::min(text.find_first_not_of(white_space, at), text.size());
  at = std::min(text.find_first_of(white_space, begin), text.size());
  return text.substr(begin, at - begin);
}

}  // namespace

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  for (std::string_view word = next_word(text, at); !word.empty(); word = next_word(text, at)) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back().append(lines.back().empty() ? "" : " ").append(word);
  }
  return lines;
}

void TextTable::add(std::vector<std::string> cells, std::string note) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back({std::move(cells), printable(note)});
}

std::vector<std::size_t> TextTable::widths() const {
  const std::size_t columns = rows_[0].cells.size();
  std::vector<std::size_t> widths(columns, 0);
  for (const Row& row : rows_) {
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row.cells[c].size());
  }
  constexpr std::size_t least = 20;  // with less, most lines would be one word
  std::size_t total = std::accumulate(widths.begin(), widths.end(), 2 * (columns - 1));
  for (; total > terminal_width && !wrapped_columns_.empty(); --total) {
    const auto width = [&](std::size_t column) { return widths[column]; };
    const std::size_t widest = *std::ranges::max_element(wrapped_columns_, {}, width);
    if (widths[widest] <= least) break;
    --widths[widest];
  }
  return widths;
}

std::string TextTable::to_string() const {
  constexpr std::size_t indent = 3;
  const std::vector<std::size_t> width = widths();
  const std::size_t columns = width.size();
  std::vector<bool> right(columns, true);
  for (std::size_t r = 1; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r].cells[c];
      if (!cell.empty() && !is_number(cell)) right[c] = false;
    }
  }
  std::string out;
  const auto rule = [&] {
    for (std::size_t c = 0; c < columns; ++c) out.append(width[c], '-').append(c + 1 < columns ? "  " : "\n");
  };
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t space = width[c] - std::min(width[c], cells[c].size());
      if (right[c]) out.append(space, ' ');
      out += cells[c];
      if (!right[c]) out.append(space, ' ');
      out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r == 1 || (total_ && r + 1 == rows_.size())) rule();
    std::vector<std::vector<std::string>> pieces;  // of every column, from top to bottom
    for (const std::string& cell : rows_[r].cells) pieces.push_back({cell});
    for (const std::size_t c : wrapped_columns_) pieces[c] = wrapped(rows_[r].cells[c], width[c]);
    const std::size_t height = std::ranges::max(pieces, {}, &std::vector<std::string>::size).size();
    for (std::size_t i = 0; i < height; ++i) {
      std::vector<std::string> cells;
      for (const auto& column : pieces) cells.push_back(i < column.size() ? column[i] : "");
      line(cells);
    }
    if (rows_[r].note.empty()) continue;
    for (const std::string& piece : wrapped(rows_[r].note, terminal_width - indent)) {
      out.append(indent, ' ').append(piece) += '\n';
    }
  }
  return out;
}

std::string format_count(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::array units = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return format_fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0) + ' ' + units[unit];
}

std::string format_fixed(double value, int decimals) {
  std::array<char, 400> text;  // the largest double has 309 digits before its point
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, decimals);
  return {text.data(), end};
}

}  // namespace lamina::detail
