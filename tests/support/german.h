#pragma once

#include <locale>
#include <string>

namespace lamina::test {

/// While it lives, the program's C++ locale writes numbers as Germans do: 1.234,5. (Needs no locale of the system.)
class GermanNumbers {
 public:
  GermanNumbers() : before_(std::locale::global(std::locale(std::locale::classic(), new Punctuation))) {}
  ~GermanNumbers() { std::locale::global(before_); }
  GermanNumbers(const GermanNumbers&) = delete;
  GermanNumbers& operator=(const GermanNumbers&) = delete;

 private:
  struct Punctuation : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  std::locale before_;
};

}  // namespace lamina::test
