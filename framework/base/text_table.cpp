#include "lamina/base/text_table.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <numeric>
#include <sstream>

namespace lamina::detail {
namespace {

bool is_number(const std::string& text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

}  // namespace

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::vector<std::string> lines(1);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
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
  std::ostringstream out;
  const auto rule = [&] {
    for (std::size_t c = 0; c < columns; ++c) out << std::string(width[c], '-') << (c + 1 < columns ? "  " : "\n");
  };
  const auto line = [&](const std::vector<std::string>& cells) {
    std::ostringstream text;
    for (std::size_t c = 0; c < columns; ++c) {
      text << (right[c] ? std::right : std::left) << std::setw(static_cast<int>(width[c])) << cells[c] << "  ";
    }
    std::string trimmed = text.str();
    trimmed.erase(trimmed.find_last_not_of(' ') + 1);
    out << trimmed << '\n';
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
      out << std::string(indent, ' ') << piece << '\n';
    }
  }
  return std::move(out).str();
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
  std::ostringstream out;
  out << std::fixed << std::setprecision(decimals) << value;
  return std::move(out).str();
}

}  // namespace lamina::detail
