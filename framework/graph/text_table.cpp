#include "lamina/graph/text_table.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

namespace lamina::detail {
namespace {

bool is_number(const std::string& text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

}  // namespace

std::string TextTable::to_string() const {
  const std::size_t columns = rows_[0].size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, true);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r][c];
      widths[c] = std::max(widths[c], cell.size());
      if (r > 0 && !cell.empty() && !is_number(cell)) right[c] = false;
    }
  }
  std::ostringstream out;
  const auto line = [&] {
    for (std::size_t c = 0; c < columns; ++c) out << std::string(widths[c], '-') << (c + 1 < columns ? "  " : "\n");
  };
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r == 1 || (total_ && r + 1 == rows_.size())) line();
    std::ostringstream row;
    for (std::size_t c = 0; c < columns; ++c) {
      row << (right[c] ? std::right : std::left) << std::setw(static_cast<int>(widths[c])) << rows_[r][c] << "  ";
    }
    std::string text = row.str();
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
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
