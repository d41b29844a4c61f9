#pragma once

#include <clocale>
#include <cstdlib>
#include <filesystem>
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

/// The same of the C library, whose locales are the system's: made for the occasion where its sources are there.
class GermanProgram {
 public:
  explicit GermanProgram(const std::filesystem::path& folder) {
    const std::string locale = (folder / "de_DE.UTF-8").string();
    const std::string command = "localedef -i de_DE -f UTF-8 '" + locale + "' >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) return;
    ::setenv("LOCPATH", folder.c_str(), 1);
    set_ = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  }
  ~GermanProgram() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  GermanProgram(const GermanProgram&) = delete;
  GermanProgram& operator=(const GermanProgram&) = delete;

  bool set() const { return set_; }

 private:
  bool set_ = false;
};

}  // namespace lamina::test
