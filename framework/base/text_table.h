#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamina::detail {

/// `text` in lines of at most `width` letters, broken between words; a longer word has a line to itself. At least one.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

/// Columns of text under a header, for a terminal of fixed-width letters. Numbers are aligned right, control characters
/// escaped.
class TextTable {
 public:
  static constexpr std::size_t terminal_width = 120;

  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }

  /// Where lines would be longer than a terminal's, the words of these columns go over several.
  void wrap(std::vector<std::size_t> columns) { wrapped_columns_ = std::move(columns); }

  /// `note`, if there is one, stands below the row, indented.
  void add(std::vector<std::string> cells, std::string note = {});
  /// A last row below a line.
  void add_total(std::vector<std::string> row) {
    total_ = true;
    add(std::move(row));
  }
  std::string to_string() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string note;
  };

  std::vector<std::size_t> widths() const;

  std::vector<Row> rows_;
  std::vector<std::size_t> wrapped_columns_;
  bool total_ = false;
};

/// 1234567 -> "1,234,567". Of 0 or more.
std::string format_count(std::int64_t value);
/// "1.5 MB", in powers of 1000; "864 B"
std::string format_bytes(std::size_t bytes);
std::string format_fixed(double value, int decimals);

}  // namespace lamina::detail
