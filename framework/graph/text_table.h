#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamina::detail {

/// Columns of text under a header, for a terminal of fixed-width letters. Numbers are aligned right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// A last row below a line.
  void add_total(std::vector<std::string> row) {
    total_ = true;
    add(std::move(row));
  }
  std::string to_string() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  bool total_ = false;
};

/// 1234567 -> "1,234,567". Of 0 or more.
std::string format_count(std::int64_t value);
/// "1.5 MB", in powers of 1000; "864 B"
std::string format_bytes(std::size_t bytes);
std::string format_fixed(double value, int decimals);

}  // namespace lamina::detail
